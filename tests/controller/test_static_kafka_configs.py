"""What becomes of the configs in a Kafka's server.properties when its log directories are taken over."""

from pathlib import Path

import pytest

from libs.cluster import keys
from libs.cluster.codec import decode
from libs.cluster.configs.resolve import effective_topic_config
from libs.cluster.image import ClusterImage
from libs.cluster.records import ConfigOverrides
from libs.cluster.store import KeyValue, RangeResult
from libs.java_properties import parse_properties
from services.controller.core.migration.kraft_records import ConfigSet, encode
from services.controller.migration.__main__ import main
from services.controller.migration.adoption import adoption_of
from services.controller.migration.kafka_directories import kafka_node
from tests.controller.kafka_metadata import FS, a_topic, log_directory


def broker(path: Path, properties: str, *, node_id: int = 1, values: list[bytes] | None = None) -> str:
    """The server.properties of a stopped broker."""
    file = path / f"server-{node_id}.properties"
    data = log_directory(path / f"data-{node_id}", node_id=node_id, directory_id=bytes([node_id + 6]) * 16, values=values)
    file.write_text(f"log.dirs={data}\n{properties}\n", encoding="utf-8")
    return str(file)


def taken(*sources: str) -> tuple[dict[str, str], ClusterImage, tuple[str, ...]]:
    """The cluster-wide defaults, the image and the notes."""
    adoption = adoption_of(FS, [kafka_node(FS, source) for source in sources], feature_level=1, now_ms=0)
    values = adoption.rebuilt.values
    items = tuple([KeyValue(key, value, 1, 1, 0) for key, value in sorted(values.items())])
    key = keys.config("broker", "")
    defaults = decode(ConfigOverrides, values[key]).values if key in values else {}
    return dict(defaults), ClusterImage.from_range(RangeResult(items, 1)), adoption.notes


@pytest.mark.parametrize(
    ("properties", "retention_ms"),
    [
        ("log.retention.ms=-1", -1),
        ("log.retention.hours=720", 720 * 3_600_000),
        ("log.retention.hours=-1", -1),
        ("log.retention.hours=720\nlog.retention.minutes=10", 600_000),
        ("log.retention.hours=720\nlog.retention.minutes=10\nlog.retention.ms=5000", 5000),
        ("log.retention.ms : -1", -1),
        ("log.retention.ms -1", -1),
        ("log.retention.\\\n  ms=-1", -1),
        ("#log.retention.ms=-1", 604_800_000),
    ],
)
def test_records_are_kept_for_as_long_as_kafka_kept_them(tmp_path: Path, properties: str, retention_ms: int) -> None:
    _, image, notes = taken(broker(tmp_path, properties))
    assert effective_topic_config(image, "of nobody").retention_ms == retention_ms
    assert effective_topic_config(image, "orders").retention_ms == 777_000, "the topic's own counts first"
    assert notes == ()


def test_defaults_of_all_topics_and_of_the_cluster_come_over(tmp_path: Path) -> None:
    given = (
        "log.cleanup.policy=compact\nmin.insync.replicas=2\nunclean.leader.election.enable=true\nlog.roll.hours=2\n"
        "offsets.retention.minutes=43200\nlog.cleaner.enable=false\nnum.io.threads=8\nlisteners=PLAINTEXT://:9092\n"
    )
    defaults, image, notes = taken(broker(tmp_path, given))
    config = effective_topic_config(image, "of nobody")
    assert (config.cleanup_policy, config.min_insync_replicas, config.segment_ms) == (("compact",), 2, 7_200_000)
    assert config.unclean_leader_election_enable
    assert (defaults["offsets.retention.minutes"], defaults["log.cleaner.enable"]) == ("43200", "false")
    assert defaults.keys().isdisjoint({"num.io.threads", "listeners", "log.dirs"}), "they have no effect here"
    assert notes == ()


def test_a_default_that_was_changed_while_kafka_ran_counts_before_its_server_properties(tmp_path: Path) -> None:
    values = [*a_topic(), encode(ConfigSet(4, "", "log.retention.ms", "42000"))]
    defaults, _, _ = taken(broker(tmp_path, "log.retention.hours=720\nlog.retention.bytes=5", values=values))
    assert defaults == {"log.retention.ms": "42000", "log.retention.bytes": "5"}


def test_brokers_that_agree_come_over(tmp_path: Path) -> None:
    first = broker(tmp_path, "log.retention.hours=1")
    second = broker(tmp_path, "log.retention.ms=3600000", node_id=2)
    assert taken(first, second)[0] == {"log.retention.ms": "3600000"}


def test_brokers_that_differ_are_refused_with_both_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sources = [broker(tmp_path, "log.retention.ms=-1"), broker(tmp_path, "", node_id=2)]
    assert main(["from-kafka", "--dry-run", *sources]) == 1
    error = capsys.readouterr().err
    assert "brokers differ in log.retention.ms: -1 on broker 1, 604800000 on broker 2" in error
    assert "--entity-default --alter --add-config log.retention.ms=" in error


def test_a_value_that_cannot_be_read_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["from-kafka", "--dry-run", broker(tmp_path, "log.retention.ms=${env:KEEP}")]) == 1
    assert "Invalid value ${env:KEEP} for configuration log.retention.ms" in capsys.readouterr().err


def test_what_only_a_start_can_be_given_is_named_in_a_note(tmp_path: Path) -> None:
    _, _, notes = taken(broker(tmp_path, "log.retention.check.interval.ms=1000"))
    assert [note.partition(" is read")[0] for note in notes] == ["broker 1: log.retention.check.interval.ms=1000"]


def test_limits_of_connections_come_over_and_hold_for_gateways(tmp_path: Path) -> None:
    defaults, _, notes = taken(broker(tmp_path, "max.connections=900\nmax.connections.per.ip.overrides=10.0.0.7:5, ::1:9"))
    assert defaults == {"max.connections": "900", "max.connections.per.ip.overrides": "10.0.0.7:5, ::1:9"}
    assert [note.partition(" held for each broker, and holds for each gateway")[0] for note in notes] == [
        "max.connections=900",
        "max.connections.per.ip.overrides=10.0.0.7:5, ::1:9",
    ]


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ("max.connections=0", "Invalid max.connections 0: nobody could connect"),
        ("max.connections.per.ip=0", "can be set to zero only if max.connections.per.ip.overrides property is set"),
        ("max.connections.per.ip.overrides=bastion:5", "bastion is no IP address, and names of hosts are not resolved"),
    ],
)
def test_limits_of_connections_that_cannot_hold_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], properties: str, words: str
) -> None:
    assert main(["from-kafka", "--dry-run", broker(tmp_path, properties)]) == 1
    assert words in capsys.readouterr().err


def test_log_directories_alone_say_which_retention_will_hold(tmp_path: Path) -> None:
    _, _, (note,) = taken(str(log_directory(tmp_path / "data")))
    assert "broker 1: its server.properties was not given" in note
    assert "retention.ms=604800000, retention.bytes=-1, cleanup.policy=delete" in note


def test_properties_are_read_as_java_reads_them() -> None:
    text = "! a comment\n a = b \n\nwith\\ space=x\\u0041\\tz\nlong=1,\\\n    2\\\\\nempty\nlast:=3"
    assert parse_properties(text) == {
        "a": "b", "with space": "xA\tz", "long": "1,2\\", "empty": "", "last": "=3",
    }  # fmt: skip
