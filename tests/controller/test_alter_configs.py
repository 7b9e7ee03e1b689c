"""Config changes: a resource changes as a whole or not at all."""

import pytest

from libs.cluster.image import ClusterImage
from libs.rpc.contracts.controller import AlterConfigs, ConfigChange, ConfigResource
from libs.wire.errors import ErrorCode
from services.controller.core.topics.alter_configs import APPEND, DELETE, SET, SUBTRACT, Alteration, alter_configs
from services.controller.term.writes import alterations
from tests.controller.images import image_of, led_by, storage

TOPIC, BROKER, GROUP = 2, 4, 32
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def image(**own: str) -> ClusterImage:
    overrides = {("topic", "t"): {name.replace("_", "."): value for name, value in own.items()}}
    return image_of(storage(1), topics={"t": [led_by(1)]}, overrides=overrides if own else None)


def alter(before: ClusterImage, kind: int, name: str, *changes: ConfigChange, replace: bool = False) -> Alteration:
    (result,) = alter_configs(before, AlterConfigs((ConfigResource(kind, name, changes, replace),)))
    return result


def test_a_value_is_set_and_the_others_stay() -> None:
    assert alter(image(retention_ms="1"), TOPIC, "t", ConfigChange("segment.ms", SET, "5")).values == {
        "retention.ms": "1",
        "segment.ms": "5",
    }


def test_a_removed_value_falls_back_and_removing_what_is_not_set_is_no_error() -> None:
    changes = (ConfigChange("retention.ms", DELETE, None), ConfigChange("segment.ms", DELETE, None))
    assert alter(image(retention_ms="1"), TOPIC, "t", *changes).values == {}


def test_the_old_api_replaces_all() -> None:
    result = alter(image(retention_ms="1"), TOPIC, "t", ConfigChange("segment.ms", SET, "5"), replace=True)
    assert result.values == {"segment.ms": "5"}


def test_lists_are_appended_to_and_subtracted_from() -> None:
    assert alter(image(), TOPIC, "t", ConfigChange("cleanup.policy", APPEND, "delete")).values == {"cleanup.policy": "delete"}
    both = alter(image(), TOPIC, "t", ConfigChange("cleanup.policy", APPEND, "compact"))
    assert both.values == {"cleanup.policy": "delete,compact"}
    refused = alter(image(), TOPIC, "t", ConfigChange("cleanup.policy", APPEND, "shred"))
    assert refused.result.error == ErrorCode.INVALID_CONFIG
    name = "leader.replication.throttled.replicas"
    assert alter(image(), TOPIC, "t", ConfigChange(name, SUBTRACT, "0:1")).values == {name: ""}


@pytest.mark.parametrize(
    ("kind", "name", "change", "error"),
    [
        (TOPIC, "x", ConfigChange("retention.ms", SET, "1"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "", ConfigChange("retention.ms", SET, "1"), ErrorCode.INVALID_REQUEST),
        (TOPIC, "a/b", ConfigChange("retention.ms", SET, "1"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "t", ConfigChange("retention.ms", SET, "soon"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", ConfigChange("retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
        (TOPIC, "t", ConfigChange("retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", ConfigChange("no.such", SET, "1"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", ConfigChange("no.such", SUBTRACT, "1"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", ConfigChange("retention.ms", 9, "1"), ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ConfigChange("log.retention.ms", SET, "1"), ErrorCode.INVALID_REQUEST),
        (BROKER, "٣", ConfigChange("log.retention.ms", SET, "1"), ErrorCode.INVALID_REQUEST),
        (BROKER, "9", ConfigChange("log.retention.ms", SET, "1"), ErrorCode.BROKER_ID_NOT_REGISTERED),
        (BROKER, "1", ConfigChange("log.retention.ms", SET, "soon"), ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ConfigChange("node.id", SET, "2"), ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ConfigChange("log.message.timestamp.difference.max.ms", SET, "2"), ErrorCode.INVALID_CONFIG),
        (BROKER, "", ConfigChange("ssl.client.auth", SET, "none"), ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ConfigChange("ssl.keystore.location", SET, "/x"), ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ConfigChange("num.partitions", SET, "2"), ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ConfigChange("no.such", APPEND, "2"), ErrorCode.INVALID_CONFIG),
        (BROKER, "1", ConfigChange("group.max.size", SET, "2"), ErrorCode.INVALID_REQUEST),
        (BROKER, "", ConfigChange("group.max.size", SET, "0"), ErrorCode.INVALID_REQUEST),
        (BROKER, "", ConfigChange("group.consumer.session.timeout.ms", SET, "60001"), ErrorCode.INVALID_REQUEST),
        (BROKER, "", ConfigChange("group.coordinator.rebalance.protocols", SET, "classic,streams"), ErrorCode.INVALID_CONFIG),
        (BROKER, "", ConfigChange("max.connections", SET, "0"), ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ConfigChange("max.connection.creation.rate", SET, "0"), ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ConfigChange("max.connections.per.ip", SET, "0"), ErrorCode.INVALID_REQUEST),
        (BROKER, "", ConfigChange("max.connections.per.ip.overrides", SET, "10.0.0.7"), ErrorCode.INVALID_REQUEST),
        (BROKER, "", ConfigChange("max.connections.per.ip.overrides", SET, "localhost:5"), ErrorCode.INVALID_CONFIG),
        (BROKER, "1", ConfigChange("listener.name.plaintext.max.connections", SET, "0"), ErrorCode.INVALID_REQUEST),
        (GROUP, "", ConfigChange(SESSION, SET, "50000"), ErrorCode.INVALID_REQUEST),
        (GROUP, "g", ConfigChange(SESSION, SET, "60001"), ErrorCode.INVALID_CONFIG),
        (GROUP, "g", ConfigChange(SESSION, SET, "soon"), ErrorCode.INVALID_CONFIG),
        (GROUP, "g", ConfigChange(SESSION, SET, None), ErrorCode.INVALID_REQUEST),
        (GROUP, "g", ConfigChange(SESSION, APPEND, "50000"), ErrorCode.INVALID_CONFIG),
        (GROUP, "g", ConfigChange("no.such", SET, "1"), ErrorCode.INVALID_CONFIG),
        (GROUP, "g", ConfigChange("share.session.timeout.ms", SET, "50000"), ErrorCode.INVALID_CONFIG),
        (8, "1", ConfigChange("root", SET, "DEBUG"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_bad_change_is_refused_with_kafkas_code(kind: int, name: str, change: ConfigChange, error: ErrorCode) -> None:
    result = alter(image(), kind, name, change)
    assert result.result.error == error
    assert result.values is None


@pytest.mark.parametrize("name", ["node.id", "no.such", "num.partitions"])
def test_a_config_that_is_not_set_may_be_removed_whatever_it_is(name: str) -> None:
    assert alter(image(), BROKER, "1", ConfigChange(name, DELETE, None)).values == {}


def test_broker_configs_without_effect_and_of_plug_ins_are_kept() -> None:
    changes = (ConfigChange("log.cleaner.io.buffer.size", SET, "600000"), ConfigChange("no.such", SET, "2"))
    assert alter(image(), BROKER, "1", *changes).values == {"log.cleaner.io.buffer.size": "600000", "no.such": "2"}


def test_addresses_without_a_limit_of_their_own_are_shut_out_only_if_others_have_one() -> None:
    none, one = ConfigChange("max.connections.per.ip", SET, "0"), ConfigChange("max.connections.per.ip.overrides", SET, "::1:5")
    both = {none.name: "0", one.name: "::1:5"}
    assert alter(image(), BROKER, "", none, one).values == both
    cluster = image_of(storage(1), overrides={("broker", ""): both})
    assert alter(cluster, BROKER, "1", none).values == {none.name: "0"}, "the default of all brokers has the address"
    refused = alter(cluster, BROKER, "", ConfigChange(one.name, DELETE, None))
    assert (refused.result.error, refused.values) == (ErrorCode.INVALID_REQUEST, None)


def test_one_bad_change_undoes_its_resource_and_no_other() -> None:
    bad = ConfigResource(TOPIC, "t", (ConfigChange("segment.ms", SET, "5"), ConfigChange("retention.ms", SET, "soon")))
    good = ConfigResource(BROKER, "", (ConfigChange("num.partitions", SET, "5"),))
    first, second = alter_configs(image(), AlterConfigs((bad, good)))
    assert first.values is None
    assert second.values == {"num.partitions": "5"}


def test_a_resource_or_a_config_named_twice_is_refused() -> None:
    change = ConfigChange("segment.ms", SET, "5")
    resource = ConfigResource(TOPIC, "t", (change,))
    (result,) = alter_configs(image(), AlterConfigs((resource, resource)))
    assert result.result.error == ErrorCode.INVALID_REQUEST
    assert alter(image(), TOPIC, "t", change, change).result.error == ErrorCode.INVALID_REQUEST


def with_groups(group: dict[str, str], cluster: dict[str, str] | None = None) -> ClusterImage:
    return image_of(storage(1), overrides={("group", "g"): group, ("broker", ""): cluster or {}})


def test_a_group_has_configs_of_its_own_before_it_exists() -> None:
    result = alter(image(), GROUP, "any/name é", ConfigChange(SESSION, SET, "50000"))
    assert (result.result.error, result.kind, result.values) == (ErrorCode.NONE, "group", {SESSION: "50000"})


def test_a_groups_configs_are_changed_one_by_one_replaced_and_removed() -> None:
    before = with_groups({SESSION: "50000"})
    assert alter(before, GROUP, "g", ConfigChange(HEARTBEAT, SET, "6000")).values == {SESSION: "50000", HEARTBEAT: "6000"}
    assert alter(before, GROUP, "g", ConfigChange(HEARTBEAT, SET, "6000"), replace=True).values == {HEARTBEAT: "6000"}
    assert alter(before, GROUP, "g", ConfigChange(SESSION, DELETE, None)).values == {}
    unknown = alter(before, GROUP, "g", ConfigChange("no.such", DELETE, None))
    assert (unknown.result.error, unknown.changes(before)) == (ErrorCode.NONE, False)


def test_a_group_may_be_set_as_far_as_the_clusters_bounds_of_the_day_go() -> None:
    wider = with_groups({}, {"group.consumer.max.session.timeout.ms": "90000"})
    assert alter(wider, GROUP, "g", ConfigChange(SESSION, SET, "90000")).result.error == ErrorCode.NONE
    result = alter(wider, GROUP, "g", ConfigChange(SESSION, SET, "90001"))
    assert result.result.error == ErrorCode.INVALID_CONFIG
    assert result.result.message == f"{SESSION} must be less than or equal to group.consumer.max.session.timeout.ms"


def test_a_config_that_holds_the_clusters_values_together_cannot_be_removed() -> None:
    bound = "group.consumer.max.session.timeout.ms"
    before = with_groups({}, {bound: "90000", "group.consumer.session.timeout.ms": "80000"})
    assert alter(before, BROKER, "", ConfigChange(bound, DELETE, None)).result.error == ErrorCode.INVALID_REQUEST
    both = (ConfigChange(bound, DELETE, None), ConfigChange("group.consumer.session.timeout.ms", DELETE, None))
    assert alter(before, BROKER, "", *both).values == {}


@pytest.mark.parametrize(("length", "transactions"), [(10, 1), (32_000, 50)])
def test_no_transaction_is_too_large_for_the_store_whatever_groups_are_called(length: int, transactions: int) -> None:
    names = [f"{number}".rjust(length, "g") for number in range(50)]
    change = ConfigChange(SESSION, SET, "50000")
    altered = alter_configs(image(), AlterConfigs(tuple(ConfigResource(GROUP, name, (change,)) for name in names)))
    written = list(alterations(image(), image, altered))
    assert len(written) == transactions
    assert [each.resource.name for _, made in written for each in made] == names
