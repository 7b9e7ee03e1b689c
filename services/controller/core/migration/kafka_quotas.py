"""A Kafka cluster's client quotas as quotas that hold for a whole cluster.

Kafka's quotas hold for each broker, so what its brokers allowed together is their number times as much. Only
`controller_mutation_rate` stays as it is: Kafka's active controller counts it alone.
"""

from collections.abc import Mapping
from typing import Final

from libs.cluster import keys
from libs.cluster.client_quotas import CLIENT_KEYS, CONTROLLER_MUTATION
from libs.cluster.codec import encode
from libs.cluster.image import ClusterImage
from libs.cluster.records import ClientQuotas, QuotaEntity
from libs.rpc.contracts.controller import EntityQuotas, QuotaChange, QuotaEntityParts
from libs.wire.errors import ErrorCode
from services.controller.core.administration.client_quotas import alter_client_quotas, largest

_OF_THE_CLUSTER: Final = CLIENT_KEYS[CONTROLLER_MUTATION]
"""The quota that holds for a whole cluster in Kafka, too."""

KafkaQuotas = Mapping[QuotaEntityParts, Mapping[str, float]]
"""Each entity's quotas by Kafka's names."""


def adopted_quotas(quotas: KafkaQuotas, brokers: int, notes: list[str]) -> dict[str, bytes]:
    """The keys and values of the quotas that a Kafka with so many brokers had. `notes` gets what is to be told of them."""
    values: dict[QuotaEntity, dict[str, float]] = {}
    multiplied = False
    for parts, of_entity in sorted(quotas.items(), key=str):
        for key, value in sorted(of_entity.items()):
            in_cluster = value if key == _OF_THE_CLUSTER else min(value * brokers, largest(key))
            change = QuotaChange(key, in_cluster)
            (alteration,) = alter_client_quotas(ClusterImage(), [EntityQuotas(parts, (change,))])
            if alteration.result.error != ErrorCode.NONE:
                notes.append(f"quota {key}={value:g} of {shown(parts)} is not carried over: {alteration.result.message}")
                continue
            assert alteration.entity is not None, "its change is right"
            values.setdefault(alteration.entity, {})[key] = in_cluster
            multiplied = multiplied or key != _OF_THE_CLUSTER
    if multiplied and brokers > 1:
        notes.append(
            f"client quotas hold for the whole cluster here, and for each broker in Kafka: all but {_OF_THE_CLUSTER} are "
            f"multiplied by {brokers}, the number of brokers"
        )
    return {keys.client_quotas(entity): encode(ClientQuotas(of_entity)) for entity, of_entity in values.items()}


def shown(parts: QuotaEntityParts) -> str:
    return ", ".join(f"{kind} {'<default>' if name is None else name!r}" for kind, name in parts) or "nobody"
