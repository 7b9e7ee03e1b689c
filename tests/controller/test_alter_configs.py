"""Config changes: a resource changes as a whole or not at all."""

import pytest

from libs.cluster.image import ClusterImage
from libs.rpc.contracts.controller import AlterConfigs, ConfigChange, ConfigResource
from libs.wire.errors import ErrorCode
from services.controller.core.configs import APPEND, DELETE, SET, SUBTRACT, Alteration, alter_configs
from tests.controller.images import image_of, led_by, storage

TOPIC, BROKER = 2, 4


def image(**own: str) -> ClusterImage:
    overrides = {("topic", "t"): {name.replace("_", "."): value for name, value in own.items()}}
    return image_of(storage(1), topics={"t": [led_by(1)]}, overrides=overrides if own else None)


def alter(before: ClusterImage, kind: int, name: str, *changes: ConfigChange, replace: bool = False) -> Alteration:
    (found,) = alter_configs(before, AlterConfigs((ConfigResource(kind, name, changes, replace),)))
    return found


def test_a_value_is_set_and_the_others_stay() -> None:
    assert alter(image(retention_ms="1"), TOPIC, "t", ConfigChange("segment.ms", SET, "5")).values == {
        "retention.ms": "1",
        "segment.ms": "5",
    }


def test_a_removed_value_falls_back_and_removing_what_is_not_set_is_no_error() -> None:
    changes = (ConfigChange("retention.ms", DELETE, None), ConfigChange("segment.ms", DELETE, None))
    assert alter(image(retention_ms="1"), TOPIC, "t", *changes).values == {}


def test_the_old_api_replaces_all() -> None:
    found = alter(image(retention_ms="1"), TOPIC, "t", ConfigChange("segment.ms", SET, "5"), replace=True)
    assert found.values == {"segment.ms": "5"}


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
        (BROKER, "1", ConfigChange("node.id", DELETE, None), ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ConfigChange("num.partitions", SET, "2"), ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ConfigChange("no.such", SET, "2"), ErrorCode.INVALID_CONFIG),
        (8, "1", ConfigChange("root", SET, "DEBUG"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_bad_change_is_refused_with_kafkas_code(kind: int, name: str, change: ConfigChange, error: ErrorCode) -> None:
    found = alter(image(), kind, name, change)
    assert found.result.error == error
    assert found.values is None


def test_one_bad_change_undoes_its_resource_and_no_other() -> None:
    bad = ConfigResource(TOPIC, "t", (ConfigChange("segment.ms", SET, "5"), ConfigChange("retention.ms", SET, "soon")))
    good = ConfigResource(BROKER, "", (ConfigChange("num.partitions", SET, "5"),))
    first, second = alter_configs(image(), AlterConfigs((bad, good)))
    assert first.values is None
    assert second.values == {"num.partitions": "5"}


def test_a_resource_or_a_config_named_twice_is_refused() -> None:
    change = ConfigChange("segment.ms", SET, "5")
    resource = ConfigResource(TOPIC, "t", (change,))
    (found,) = alter_configs(image(), AlterConfigs((resource, resource)))
    assert found.result.error == ErrorCode.INVALID_REQUEST
    assert alter(image(), TOPIC, "t", change, change).result.error == ErrorCode.INVALID_REQUEST
