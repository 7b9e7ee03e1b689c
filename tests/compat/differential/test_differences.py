"""The same requests to Apache Kafka 4.2.1 and to Penstock differ where docs/protocol.md says so, and nowhere else."""

from collections.abc import Iterator

import pytest

from libs.wire.apis import APIS
from services.gateway.protocol_docs.differences import DIFFERENCES
from tests.compat.differential import slow_clients, throttling
from tests.compat.differential.both_systems import BothSystems, check
from tests.compat.differential.messages import message_class, versions_of
from tests.compat.differential.scenario import Scenario
from tests.compat.differential.scenarios import ALL
from tests.compat.differential.scenarios.configs import BROKER, BROKER_LOGGER
from tests.compat.differential.systems import KAFKA, System
from tests.compat.kafka.broker import QUICK, KafkaBroker
from tests.support.cluster_harness import LocalCluster
from tests.support.requirements import require

IMPATIENT = {"PENSTOCK_HALF_FRAME_S_MAX": "5", "PENSTOCK_UNREAD_ANSWERS_S_MAX": "5"}
"""What takes 30 s takes 5 s here. No other scenario is as slow as that."""
SMALL_GROUPS = {"group.max.size": "2", "group.consumer.max.size": "2"}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothSystems]:
    """Neither the session's cluster nor its Kafka: here both must hold the same topics, and each have one broker."""
    require("java", "kafka", "etcd")
    with (
        KafkaBroker(tmp_path_factory.mktemp("kafka"), options=QUICK, properties=SMALL_GROUPS) as kafka,
        LocalCluster(storage=1, gateways=1, environment_of={"gateway-1": IMPATIENT}) as penstock,
        BothSystems(
            System(KAFKA, kafka.port),
            System("Penstock", penstock.shape.port + 1),
        ) as both,
    ):
        both.prepare(ALL)
        # All brokers: Kafka's is told at its start.
        configure(both.penstock, BROKER, "", {**SMALL_GROUPS, "group.initial.rebalance.delay.ms": "0"})
        # The tests' Kafka starts with less in its log.
        configure(both.kafka, BROKER_LOGGER, "1", {"root": "INFO"})
        yield both


def configure(system: System, kind: int, name: str, values: dict[str, str]) -> None:
    configs = [{"name": key, "config_operation": 0, "value": value} for key, value in values.items()]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    answer = system.ask("incremental_alter_configs", 1, {"resources": [resource], "validate_only": False})
    assert isinstance(answer, dict)
    assert answer["responses"][0]["error_code"] == 0, answer


@pytest.mark.parametrize("scenario", ALL, ids=[scenario.slug for scenario in ALL])
def test_penstock_answers_as_kafka_does_but_for_what_is_listed(pair: BothSystems, scenario: Scenario) -> None:
    check(pair, scenario)


@pytest.mark.parametrize("behaviour", slow_clients.ALL, ids=lambda behaviour: behaviour.difference)
def test_slow_clients_lose_their_connection_here_and_not_there(pair: BothSystems, behaviour: slow_clients.Behaviour) -> None:
    with behaviour.begin(pair.kafka) as there, behaviour.begin(pair.penstock) as here:
        assert slow_clients.is_closed(here, within_s=60.0)
        assert not slow_clients.is_closed(there, within_s=0.0)


@pytest.mark.parametrize("api", throttling.ALL)
def test_a_client_over_its_quota_is_told_and_muted_by_both(pair: BothSystems, api: str) -> None:
    kafka, penstock = pair.on_both(lambda system: throttling.ALL[api](system, f"throttled-{api}"), topic=f"throttled-{api}")
    assert penstock == kafka
    assert kafka["told"]
    assert kafka["muted"]


def test_every_difference_that_is_listed_is_shown() -> None:
    shown = {row.id for scenario in ALL for row in scenario.differs} | {each.difference for each in slow_clients.ALL}
    assert shown == {difference.id for difference in DIFFERENCES if not difference.unseen}
    assert len({difference.id for difference in DIFFERENCES}) == len(DIFFERENCES)


def test_every_version_of_every_api_that_is_served_is_compared() -> None:
    compared = {
        (message_class(scenario.api, "request", versions_of(scenario.api)[0]).__api_key__, version)
        for scenario in ALL
        for version in scenario.each_version()
    }
    served = {(int(api.key), version) for api in APIS.values() for version in range(api.min_version, api.max_version + 1)}
    assert served <= compared


def test_scenarios_have_names_of_their_own() -> None:
    assert len({scenario.slug for scenario in ALL}) == len(ALL)
