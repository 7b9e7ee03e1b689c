"""What is taken over of a stopped Kafka's log directories, and what is refused. With a real Kafka: `tests/deploy/migration/`."""

import errno
from collections.abc import Sequence
from pathlib import Path

import pytest

from libs.cluster import keys
from libs.cluster.acls import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from libs.cluster.codec import decode
from libs.cluster.records import ClientQuotas, ConfigOverrides, PartitionState, QuotaEntity, Replica, Topic
from libs.cluster.scram_credentials import SCRAM_SHA_256, ScramCredential
from libs.commitlog.files.filesystem import OsFileSystem
from libs.commitlog.model.errors import DirectoryLocked
from libs.rpc.contracts.controller import Acl
from services.controller.core.migration.kraft_partitions import PartitionAdded
from services.controller.core.migration.kraft_records import ConfigSet, TopicAdded, encode
from services.controller.core.migration.kraft_security import AclAdded
from services.controller.migration.__main__ import main
from services.controller.migration.adoption import adoption_of
from services.controller.migration.kafka_directories import kafka_node, set_aside
from tests.controller.kafka_metadata import (
    CLUSTER,
    DIRECTORY_ID,
    FS,
    KAFKAS_ACL,
    KAFKAS_ACL_REMOVAL,
    KAFKAS_SCRAM,
    KAFKAS_SCRAM_REMOVAL,
    METADATA_4_2,
    ORDERS,
    a_topic,
    brokers,
    log_directory,
    partition_of,
    quota,
)
from tests.support.posix_locks import posix_lock_of_a_child

ASIDE = "__cluster_metadata-0.00000000000000000000000000000001-stray"


def adopted(*paths: Path) -> tuple[dict[str, bytes], tuple[str, ...]]:
    adoption = adoption_of(FS, [kafka_node(FS, str(path)) for path in paths], feature_level=1, now_ms=0)
    return adoption.rebuilt.values, adoption.notes


def without_defaults(notes: Sequence[str]) -> list[str]:
    """The notes without the one on the defaults of a broker whose server.properties was not given."""
    return [note for note in notes if "server.properties was not given" not in note]


def refusal(capsys: pytest.CaptureFixture[str], *sources: object) -> str:
    assert main(["from-kafka", "--dry-run", *map(str, sources)]) == 1
    return capsys.readouterr().err


def test_a_topic_keeps_its_id_its_replicas_and_its_configs(tmp_path: Path) -> None:
    values, notes = adopted(log_directory(tmp_path / "data"))
    assert decode(str, values[keys.CLUSTER_ID]) == CLUSTER
    assert decode(Topic, values[keys.topic("orders")]) == Topic("orders", ORDERS.hex(), 1)
    assert decode(ConfigOverrides, values[keys.config("topic", "orders")]).values == {"retention.ms": "777000"}
    state = decode(PartitionState, values[keys.partition(ORDERS, 0)])
    assert state.replicas == (Replica(1, DIRECTORY_ID.hex()),)
    assert (state.leader, [member.node_id for member in state.isr]) == (-1, [1]), "the node is asked for its log"
    assert state.leader_epoch > 4
    assert decode(int, values[keys.PRODUCER_IDS]) >= 5000
    assert without_defaults(notes) == []


def test_the_records_after_the_newest_snapshot_count(tmp_path: Path) -> None:
    data = log_directory(tmp_path / "data")
    log = data / "__cluster_metadata-0" / f"{0:020d}.log"
    (log.parent / f"{len(a_topic()):020d}-{1:010d}.checkpoint").write_bytes(log.read_bytes())
    values, _ = adopted(data)
    assert keys.topic("orders") in values


def test_a_record_inside_of_an_aborted_metadata_transaction_does_not_count(tmp_path: Path) -> None:
    begin, abort = b"\x01\x17\x00\x00", b"\x01\x19\x00\x00"
    values, _ = adopted(
        log_directory(tmp_path / "data", values=[*a_topic(), begin, encode(TopicAdded("never", bytes(16))), abort])
    )
    assert keys.topic("never") not in values


def test_what_penstock_does_not_have_is_named_in_notes(tmp_path: Path) -> None:
    token = b"\x01\x0a\x00"
    unknown = encode(ConfigSet(2, "orders", "no.such.config", "1"))
    _, notes = adopted(log_directory(tmp_path / "data", values=[*a_topic(), token, unknown]))
    assert [note.partition(":")[0] for note in without_defaults(notes)] == ["topic orders", "delegation tokens"]


def acls_in(values: dict[str, bytes]) -> list[AclBinding | None]:
    return [keys.acl_of(key) for key in values if key.startswith(keys.ACLS)]


def test_acls_are_carried_over_and_addresses_in_our_spelling(tmp_path: Path) -> None:
    values, notes = adopted(log_directory(tmp_path / "data", values=[*a_topic(), KAFKAS_ACL]))
    assert acls_in(values) == [
        AclBinding(ResourceType.TOPIC, PatternType.PREFIXED, "orders-", "User:ann", "::1", AclOperation.READ, AclPermission.ALLOW)
    ]
    assert without_defaults(notes) == ["1 ACLs are carried over: gateways that have an authorizer obey them"]


def test_an_acl_that_was_removed_is_none_and_one_that_is_refused_here_is_named(tmp_path: Path) -> None:
    values, _ = adopted(log_directory(tmp_path / "removed", values=[*a_topic(), KAFKAS_ACL, KAFKAS_ACL_REMOVAL]))
    assert acls_in(values) == []
    long = Acl(2, 3, "n" * 30_000, "User:ann", "*", 3, 2)
    values, notes = adopted(log_directory(tmp_path / "long", values=[*a_topic(), encode(AclAdded(bytes(16), long))]))
    assert acls_in(values) == []
    (note,) = without_defaults(notes)
    assert note.startswith("an ACL of User:ann on nnnn")
    assert "is not carried over: " in note
    assert len(note) < 600


def test_users_are_carried_over_and_no_image_or_note_shows_their_credentials(tmp_path: Path) -> None:
    path = log_directory(tmp_path / "data", values=[*a_topic(), KAFKAS_SCRAM])
    adoption = adoption_of(FS, [kafka_node(FS, str(path))], feature_level=1, now_ms=0)
    assert adoption.users == {(SCRAM_SHA_256, "ann"): ScramCredential(b"sixteen bytes of", b"stored", b"server", 4096)}
    assert not any(key.startswith(keys.SCRAM) for key in adoption.rebuilt.values)
    assert without_defaults(adoption.notes) == [
        "1 SCRAM credentials of users are carried over: gateways with a SASL listener check them"
    ]
    assert "server" not in repr(adoption.users)
    gone = log_directory(tmp_path / "gone", values=[*a_topic(), KAFKAS_SCRAM, KAFKAS_SCRAM_REMOVAL])
    assert adoption_of(FS, [kafka_node(FS, str(gone))], feature_level=1, now_ms=0).users == {}


def test_a_user_who_could_not_log_in_here_is_named_in_a_note(tmp_path: Path) -> None:
    short_salt = KAFKAS_SCRAM.replace(b"\x11sixteen bytes of", b"\x09too few ")
    path = log_directory(tmp_path / "data", values=[*a_topic(), short_salt])
    adoption = adoption_of(FS, [kafka_node(FS, str(path))], feature_level=1, now_ms=0)
    assert adoption.users == {}
    assert without_defaults(adoption.notes) == [
        "the SCRAM credential of user ann is not carried over: The salt has less than 12 bytes"
    ]


def about_quotas(notes: Sequence[str]) -> list[str]:
    return [note for note in notes if "quota" in note]


def quotas_of(values: dict[str, bytes], entity: QuotaEntity) -> dict[str, float] | None:
    value = values.get(keys.client_quotas(entity))
    return None if value is None else decode(ClientQuotas, value).values


def test_quotas_are_those_of_all_brokers_together_but_for_the_one_that_kafkas_controller_counts(tmp_path: Path) -> None:
    given = {
        "producer_byte_rate": 1000.0,
        "consumer_byte_rate": 2000.0,
        "request_percentage": 12.5,
        "controller_mutation_rate": 0.5,
    }
    records = [quota({"user": "ann", "client-id": None}, key, value) for key, value in given.items()]
    records.append(quota({"ip": "10.0.0.1"}, "connection_creation_rate", 7.0))
    values, notes = adopted(log_directory(tmp_path / "data", values=[*a_topic(), *brokers(3), *records]))
    assert quotas_of(values, QuotaEntity("ann", "")) == {
        "producer_byte_rate": 3000.0,
        "consumer_byte_rate": 6000.0,
        "request_percentage": 37.5,
        "controller_mutation_rate": 0.5,
    }
    assert quotas_of(values, QuotaEntity(ip="10.0.0.1")) == {"connection_creation_rate": 21.0}
    assert about_quotas(notes) == [
        "client quotas hold for the whole cluster here, and for each broker in Kafka: all but controller_mutation_rate are "
        "multiplied by 3, the number of brokers"
    ]


def test_quotas_of_a_single_broker_stay_as_they_are(tmp_path: Path) -> None:
    rate = quota({"client-id": "app"}, "producer_byte_rate", 1000.0)
    values, notes = adopted(log_directory(tmp_path / "data", values=[*a_topic(), *brokers(1), rate]))
    assert quotas_of(values, QuotaEntity(client_id="app")) == {"producer_byte_rate": 1000.0}
    assert about_quotas(notes) == []


def test_a_quota_that_was_removed_is_none(tmp_path: Path) -> None:
    app = {"client-id": "app"}
    records = [quota(app, "producer_byte_rate", 1000.0), quota(app, "producer_byte_rate", None)]
    values, _ = adopted(log_directory(tmp_path / "data", values=[*a_topic(), *brokers(2), *records]))
    assert quotas_of(values, QuotaEntity(client_id="app")) is None


def test_a_quota_of_no_limit_stays_one_and_overrides_a_default(tmp_path: Path) -> None:
    records = [quota({"user": "ann"}, "producer_byte_rate", 2.0**63), quota({"user": None}, "producer_byte_rate", 10.0)]
    values, _ = adopted(log_directory(tmp_path / "data", values=[*a_topic(), *brokers(3), *records]))
    assert quotas_of(values, QuotaEntity("ann")) == {"producer_byte_rate": 2.0**63}
    assert quotas_of(values, QuotaEntity("")) == {"producer_byte_rate": 30.0}


def test_a_quota_that_is_refused_here_is_named_in_a_note(tmp_path: Path) -> None:
    records = [
        quota({"ip": "web.example.com"}, "connection_creation_rate", 7.0),
        quota({"user": "ann"}, "request_percentage", float("nan")),
        quota({"user": "ann"}, "of_a_later_kafka", 1.0),
    ]
    values, notes = adopted(log_directory(tmp_path / "data", values=[*a_topic(), *brokers(3), *records]))
    assert not any(key.startswith(keys.QUOTAS) for key in values)
    assert [note.partition(" is not carried over")[0] for note in about_quotas(notes)] == [
        "quota connection_creation_rate=7 of ip 'web.example.com'",
        "quota of_a_later_kafka=1 of user 'ann'",
        "quota request_percentage=nan of user 'ann'",
    ]


def test_a_directory_that_kafkas_metadata_do_not_know_is_no_topic(tmp_path: Path) -> None:
    values, notes = adopted(log_directory(tmp_path / "data", values=[METADATA_4_2]))
    assert keys.topic("orders") not in values
    assert [note for note in notes if note.startswith("orders-0: Kafka's metadata do not know it")]


def test_kafkas_own_metadata_are_set_aside_where_neither_looks(tmp_path: Path) -> None:
    data = log_directory(tmp_path / "data")
    set_aside(FS, [kafka_node(FS, str(data))])
    assert not (data / "__cluster_metadata-0").exists()
    assert (data / ASIDE).exists()


def test_server_properties_name_the_directories(tmp_path: Path) -> None:
    first, second = log_directory(tmp_path / "a"), log_directory(tmp_path / "b", values=[])
    file = tmp_path / "server.properties"
    file.write_text(f"# a comment\nnode.id=1\nlog.dirs = {first}, {second}\n", encoding="utf-8")
    assert kafka_node(FS, str(file)).log_dirs == (str(first), str(second))


def test_the_directory_that_server_properties_name_for_metadata_counts(tmp_path: Path) -> None:
    """A log directory may still hold the metadata of a former life."""
    data = log_directory(tmp_path / "data", values=[METADATA_4_2])
    metadata = log_directory(tmp_path / "metadata")
    (tmp_path / "server.properties").write_text(f"log.dirs={data}\nmetadata.log.dir={metadata}\n", encoding="utf-8")
    values, _ = adopted(tmp_path / "server.properties")
    assert keys.topic("orders") in values


def test_metadata_that_were_set_aside_before_are_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = log_directory(tmp_path / "data")
    (data / "__cluster_metadata-0.00000000000000000000000000000001-stray").mkdir()
    assert "was set aside before: move it away" in refusal(capsys, data)


def test_an_unclean_stop_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "has no .kafka_cleanshutdown" in refusal(capsys, log_directory(tmp_path / "data", clean=False))


def test_a_running_kafka_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kafka's lock is POSIX's, which belongs to a process: a child plays Kafka."""
    data = log_directory(tmp_path / "data")
    with posix_lock_of_a_child(data / ".lock"):
        assert "stop it first" in refusal(capsys, data)


def test_a_directory_that_kafka_uses_is_not_opened(tmp_path: Path) -> None:
    with posix_lock_of_a_child(tmp_path / ".lock"), pytest.raises(DirectoryLocked):
        OsFileSystem().lock(str(tmp_path / ".lock"))


def test_kafka_does_not_get_a_directory_that_penstock_uses(tmp_path: Path) -> None:
    OsFileSystem().lock(str(tmp_path / ".lock"))
    with pytest.raises(AssertionError, match="the child has no lock"), posix_lock_of_a_child(tmp_path / ".lock"):
        pass


def test_tiered_storage_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiered = encode(ConfigSet(2, "orders", "remote.storage.enable", "true"))
    assert "topic orders has remote.storage.enable=true" in refusal(
        capsys, log_directory(tmp_path / "data", values=[*a_topic(), tiered])
    )


@pytest.mark.parametrize("level", [b"\x00\x15", b"\x00\x1e"])
def test_the_metadata_of_other_versions_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], level: bytes) -> None:
    values = [METADATA_4_2[:-3] + level + b"\x00", *a_topic()[1:]]
    assert "22 to 29 can be taken over" in refusal(capsys, log_directory(tmp_path / "data", values=values))


def test_a_record_that_kafka_4_2_does_not_write_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "record type 99" in refusal(capsys, log_directory(tmp_path / "data", values=[*a_topic(), b"\x01\x63\x00\x00"]))


def test_a_damaged_metadata_log_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = log_directory(tmp_path / "data")
    log = data / "__cluster_metadata-0" / f"{0:020d}.log"
    content = bytearray(log.read_bytes())
    content[70] ^= 1
    log.write_bytes(content)
    assert "checksum of the batch at byte 0 is wrong" in refusal(capsys, data)
    log.write_bytes(content[:-3])
    assert "is damaged" in refusal(capsys, data)


def test_directories_that_no_kafka_formatted_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "has no meta.properties" in refusal(capsys, tmp_path)
    assert "is no directory" in refusal(capsys, tmp_path / "none")
    old = log_directory(tmp_path / "old")
    (old / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=x\n", encoding="utf-8")
    assert "not that of a broker under KRaft" in refusal(capsys, old)


def test_a_broker_given_twice_and_one_without_a_controller_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, same = log_directory(tmp_path / "one"), log_directory(tmp_path / "same")
    assert "several of these are broker 1" in refusal(capsys, one, same)
    assert "none of these has a __cluster_metadata-0" in refusal(capsys, log_directory(tmp_path / "alone", values=[]))


def test_several_brokers_of_one_cluster_come_over_together_by_the_longest_metadata_log(tmp_path: Path) -> None:
    other = bytes([8]) * 16
    both = PartitionAdded(ORDERS, 0, (1, 2), (2,), 2, 4, 9, directories=(DIRECTORY_ID, other))
    late = [*a_topic(), encode(both), encode(ConfigSet(2, "orders", "retention.ms", "888000"))]
    first = log_directory(tmp_path / "first")
    second = log_directory(tmp_path / "second", node_id=2, directory_id=other, values=late)
    values, notes = adopted(first, second)
    state = decode(PartitionState, values[keys.partition(ORDERS, 0)])
    assert state.replicas == (Replica(1, DIRECTORY_ID.hex()), Replica(2, other.hex()))
    assert decode(ConfigOverrides, values[keys.config("topic", "orders")]).values == {"retention.ms": "888000"}
    assert without_defaults(notes) == []


def test_broker_0_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "Penstock's ids begin with 1" in refusal(capsys, log_directory(tmp_path / "data", node_id=0))


def test_a_broker_that_has_replicas_and_was_not_given_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = [*a_topic(), encode(TopicAdded("far", bytes([3]) * 16)), encode(partition_of(bytes([3]) * 16, node_id=2))]
    assert "broker 2 has replicas, and its directories were not given" in refusal(
        capsys, log_directory(tmp_path / "data", values=values)
    )


class FailingRename(OsFileSystem):
    """A file system in which one path cannot be renamed."""

    def __init__(self, path: str) -> None:
        self.path = path

    def rename(self, source: str, target: str) -> None:
        if source == self.path:
            raise OSError(errno.EIO, "the disk is broken", source)
        super().rename(source, target)


def test_setting_aside_can_be_repeated_after_it_has_failed_at_one_broker(tmp_path: Path) -> None:
    first, second = log_directory(tmp_path / "first"), log_directory(tmp_path / "second", node_id=2)
    nodes = [kafka_node(FS, str(data)) for data in (first, second)]
    with pytest.raises(OSError, match="the disk is broken"):
        set_aside(FailingRename(str(second / "__cluster_metadata-0")), nodes)
    assert not (first / "__cluster_metadata-0").exists()
    assert set_aside(FS, nodes) == [str(second / ASIDE)]
    assert set_aside(FS, nodes) == []


def test_no_kafka_starts_in_the_directories_while_they_are_taken_over(tmp_path: Path) -> None:
    data = log_directory(tmp_path / "data")
    (data / ".lock").touch()
    node = kafka_node(FS, str(data))
    with pytest.raises(AssertionError, match="the child has no lock"), posix_lock_of_a_child(data / ".lock"):
        pass
    del node
    with posix_lock_of_a_child(data / ".lock"):
        pass


def test_a_directory_that_is_given_twice_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = log_directory(tmp_path / "data")
    (data / ".lock").touch()
    assert f"{data} is given twice" in refusal(capsys, data, data)


def controller(path: Path, properties: str) -> Path:
    """The server.properties of a controller without logs of topics. A controller marks no clean stop."""
    metadata = log_directory(path / "metadata", node_id=100, clean=False, values=a_topic())
    (path / "controller.properties").write_text(f"process.roles=controller\n{properties.format(metadata)}\n", encoding="utf-8")
    return path / "controller.properties"


@pytest.mark.parametrize("properties", ["metadata.log.dir={}", "log.dirs={}"])
def test_a_controller_with_a_machine_of_its_own_gives_its_metadata(tmp_path: Path, properties: str) -> None:
    values, _ = adopted(log_directory(tmp_path / "data", values=[]), controller(tmp_path, properties))
    assert keys.topic("orders") in values
    assert keys.node(100) not in values


def test_a_controller_that_runs_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = controller(tmp_path, "metadata.log.dir={}")
    with posix_lock_of_a_child(tmp_path / "metadata" / ".lock"):
        assert "stop it first" in refusal(capsys, source)
