"""Client quotas: whom a configured quota limits, and who shares the limit. Pure.

Kafka's precedence: of the entities that fit a client, the most specific one that has a quota of a kind decides. A quota of a
user is shared by all of that user's clients, and one of a client id by all users with it. A quota of a default holds for each
name by itself.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from libs.cluster.image import ClusterImage

PRODUCE, FETCH, REQUEST, CONTROLLER_MUTATION, CONNECTION_CREATION = range(5)
"""The kinds of quotas."""

SHARED: Final = (PRODUCE, FETCH, REQUEST)
"""Those whose limits gateways share, by way of the quota manager."""

USER, CLIENT_ID, IP = "user", "client-id", "ip"
"""Kafka's names of the parts of an entity."""

CLIENT_KEYS: Final = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
"""Kafka's names of the kinds that limit users and client ids, by kind."""
IP_KEY: Final = "connection_creation_rate"

Entity = tuple[int, str, str]
"""Who shares a limit: the kind of quota, the user and the client id. "" for a part that does not tell entities apart. Of
CONNECTION_CREATION, the address stands in the user's place."""


class Limit(NamedTuple):
    """A limit that is in force. `rate`: bytes, mutations or connections a second; of REQUEST, percent of a core."""

    entity: Entity
    rate: float


Limits = tuple[Limit | None, Limit | None, Limit | None, Limit | None]
"""The limits of one client by kind: PRODUCE, FETCH, REQUEST, CONTROLLER_MUTATION. None: there is no limit."""

UNLIMITED: Final[Limits] = (None, None, None, None)

_DEFAULT: Final = ""


def user_of(principal: str) -> str:
    """The name of a principal, such as `User:ANONYMOUS`."""
    return principal.partition(":")[2]


def client_limits(image: ClusterImage, user: str, client_id: str) -> Limits:
    """The limits of a user's client; `UNLIMITED` itself if there is none. Costs eight probes where quotas are configured, and
    none where there are none.

    A client without an id has the id "", for which only defaults are configured.
    """
    quotas = image.client_quotas
    if not quotas:
        return UNLIMITED
    found: list[Limit | None] = [*UNLIMITED]
    # The keys are equal to instances of QuotaEntity, and cheaper.
    for entity, of_user, of_client in (
        ((user, client_id, None), user, client_id),
        ((user, _DEFAULT, None), user, client_id),
        ((user, None, None), user, ""),
        ((_DEFAULT, client_id, None), user, client_id),
        ((_DEFAULT, _DEFAULT, None), user, client_id),
        ((_DEFAULT, None, None), user, ""),
        ((None, client_id, None), "", client_id),
        ((None, _DEFAULT, None), "", client_id),
    ):
        values = quotas.get(entity)  # type: ignore[call-overload]
        if values is None:
            continue
        for kind, key in enumerate(CLIENT_KEYS):
            if found[kind] is None and key in values:
                found[kind] = Limit((kind, of_user, of_client), values[key])
    if not any(found):
        return UNLIMITED
    produce, fetch, request, mutation = found
    return produce, fetch, request, mutation


def has_limits(image: ClusterImage, kinds: Sequence[int]) -> bool:
    """Whether there is a quota of one of these kinds."""
    keys = [CLIENT_KEYS[kind] for kind in kinds]
    return any(key in values for values in image.client_quotas.values() for key in keys)


def rate_of(image: ClusterImage, entity: Entity) -> float | None:
    """The rate that an entity's clients share, by `client_limits`. None: no client has it as its entity now."""
    kind, user, client_id = entity
    limit = client_limits(image, user, client_id)[kind] if 0 <= kind < len(CLIENT_KEYS) else None
    return limit.rate if limit is not None and limit.entity == entity else None


def connection_limit(image: ClusterImage, ip: str) -> Limit | None:
    """The limit of new connections from an address. It is written as `ipaddress` writes it, an IPv4 address as such also on an
    IPv6 socket. None: there is no limit."""
    quotas = image.client_quotas
    if not quotas:
        return None
    for entity in ((None, None, ip), (None, None, _DEFAULT)):
        values = quotas.get(entity)  # type: ignore[call-overload]
        if values is not None and IP_KEY in values:
            return Limit((CONNECTION_CREATION, ip, ""), values[IP_KEY])
    return None
