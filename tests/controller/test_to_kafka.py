"""What Kafka is given of a stopped cluster's metadata, and what is refused. With a real Kafka: `tests/deploy/migration/`."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from libs.cluster import keys
from libs.cluster.acls import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from libs.cluster.codec import encode
from libs.cluster.records import (
    AclRecord,
    ClientQuotas,
    ConfigOverrides,
    InSync,
    NodeRecord,
    PartitionState,
    QuotaEntity,
    Replica,
    Topic,
)
from libs.cluster.saved_metadata import backup_of
from libs.cluster.scram_credentials import ScramCredential, contents_of
from libs.cluster.store import KeyValue, RangeResult
from libs.rpc.contracts.controller import Acl
from libs.wire.record_batches.records import Record, build_batch, iter_batches, iter_records
from services.controller.core.administration.first_users import Users
from services.controller.core.migration import kraft_records
from services.controller.core.migration.kraft_metadata import KraftMetadata
from services.controller.core.migration.kraft_security import AclAdded, ScramSet
from services.controller.migration.__main__ import main
from tests.controller.kafka_metadata import CLUSTER, DIRECTORY_ID, KAFKAS_ACL, KAFKAS_SCRAM, METADATA_4_2, ORDERS, log_directory

IN_SYNC = PartitionState((Replica(1, DIRECTORY_ID.hex()),), -1, 0, 7, 9, (InSync(1, 5),), owner_epoch=30)

USERS = {
    ("SCRAM-SHA-512", "ann"): ScramCredential(b"salt of ann!", b"s" * 64, b"k" * 64, 8_192),
    ("SCRAM-SHA-256", "ann"): ScramCredential(b"another salt", b"S" * 32, b"K" * 32, 4_096),
}
ACLS = (
    AclBinding(ResourceType.TOPIC, PatternType.PREFIXED, "orders-", "User:ann", "::1", AclOperation.READ, AclPermission.ALLOW),
    AclBinding(ResourceType.GROUP, PatternType.LITERAL, "*", "User:*", "10.0.0.1", AclOperation.ALL, AclPermission.DENY),
)


def backup(path: Path, state: PartitionState, users: Users) -> Path:
    values = {
        keys.CLUSTER_ID: encode(CLUSTER),
        keys.PRODUCER_IDS: encode(4000),
        keys.topic("orders"): encode(Topic("orders", ORDERS.hex(), 1)),
        keys.partition(ORDERS, 0): encode(state),
        keys.config("topic", "orders"): encode(ConfigOverrides({"retention.ms": "777000", "durability": "replicated"})),
        keys.config("group", "billing"): encode(ConfigOverrides({"consumer.session.timeout.ms": "50000"})),
        keys.client_quotas(QuotaEntity("u")): encode(ClientQuotas({"producer_byte_rate": 1024.0})),
        **{keys.acl(binding): encode(AclRecord()) for binding in ACLS},
        **contents_of(users, b"secret"),
        keys.node(1): encode(NodeRecord(1, (DIRECTORY_ID.hex(),), "zone-a")),
    }
    items = tuple([KeyValue(key, value, 1, 1, 0) for key, value in sorted(values.items())])
    path.write_bytes(backup_of(RangeResult(items, 1), 0))
    return path


def formatted(path: Path, cluster_id: str = CLUSTER) -> Path:
    """A metadata.log.dir as `kafka-storage.sh format` leaves it."""
    path.mkdir()
    (path / "meta.properties").write_text(f"version=1\nnode.id=1\ncluster.id={cluster_id}\n", encoding="utf-8")
    head = build_batch([Record(b"\x00\x00\x00\x03", bytes(11))], base_offset=0, leader_epoch=0, control=True)
    levels = build_batch([Record(None, METADATA_4_2)], base_offset=1, leader_epoch=0)
    foot = build_batch([Record(b"\x00\x00\x00\x04", bytes(3))], base_offset=2, leader_epoch=0, control=True)
    (path / "bootstrap.checkpoint").write_bytes(bytes(head + levels + foot))
    return path


def give(
    tmp_path: Path, state: PartitionState = IN_SYNC, *, clean: bool = True, users: Users | None = None, asked: Sequence[str] = ()
) -> int:
    saved = backup(tmp_path / "metadata.backup", state, users or {})
    if not (tmp_path / "metadata").exists():
        formatted(tmp_path / "metadata")
        log_directory(tmp_path / "data", clean=clean, values=[])
    targets = ["--metadata-dir", str(tmp_path / "metadata"), str(tmp_path / "data")]
    return main(["to-kafka", *asked, "--backup", str(saved), *targets])


def read_back(tmp_path: Path) -> KraftMetadata:
    metadata = KraftMetadata()
    batches = list(iter_batches((tmp_path / "metadata" / "bootstrap.checkpoint").read_bytes()))
    assert [batch.header.is_control for batch in batches] == [True, *[False] * (len(batches) - 2), True]
    values = [each.value or b"" for batch in batches if not batch.header.is_control for each in iter_records(batch.view)]
    metadata.replay(record for value in values if (record := kraft_records.decode(value)) is not None)
    return metadata


def test_kafka_gets_topics_partitions_configs_and_registrations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert give(tmp_path) == 0
    metadata = read_back(tmp_path)
    assert metadata.topics == {ORDERS: "orders"}
    partition = metadata.partitions[ORDERS][0]
    assert (partition.replicas, partition.isr, partition.leader, partition.directories) == ((1,), (1,), -1, (DIRECTORY_ID,))
    assert partition.leader_epoch > 30, "markers in the logs have the owner's epoch"
    assert metadata.configs == {
        (2, "orders"): {"retention.ms": "777000"},
        (32, "billing"): {"consumer.session.timeout.ms": "50000"},
    }
    assert metadata.brokers[1].rack == "zone-a"
    assert metadata.features == {"metadata.version": 29}, "as Kafka formatted it"
    assert metadata.next_producer_id == 4000
    assert sorted(metadata.acls.values(), key=lambda acl: acl.name) == [
        Acl(3, 3, "*", "User:*", "10.0.0.1", 2, 2),
        Acl(2, 4, "orders-", "User:ann", "0:0:0:0:0:0:0:1", 3, 3),
    ]
    notes = capsys.readouterr().out
    assert "durability=replicated is Penstock's own" in notes
    assert "client quotas of 1 entities" in notes
    assert "2 ACLs: Kafka obeys them" in notes


def test_an_acl_is_encoded_as_kafka_does() -> None:
    added = kraft_records.decode(KAFKAS_ACL)
    assert isinstance(added, AclAdded)
    assert kraft_records.encode(added) == KAFKAS_ACL


def test_a_credential_is_encoded_as_kafka_does() -> None:
    given = kraft_records.decode(KAFKAS_SCRAM)
    assert isinstance(given, ScramSet)
    assert kraft_records.encode(given) == KAFKAS_SCRAM


def test_users_are_given_back_if_asked_in_a_file_for_its_owner_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mask = os.umask(0o022)
    try:
        assert give(tmp_path, users=USERS, asked=["--with-credentials"]) == 0
        assert os.umask(0o022) == 0o022, "only that file"
    finally:
        os.umask(mask)
    assert read_back(tmp_path).credentials == {
        ("ann", 1): USERS["SCRAM-SHA-256", "ann"],
        ("ann", 2): USERS["SCRAM-SHA-512", "ann"],
    }
    assert "2 SCRAM credentials of users are in each bootstrap.checkpoint: keep it as a secret" in capsys.readouterr().out
    assert (tmp_path / "metadata" / "bootstrap.checkpoint").stat().st_mode & 0o777 == 0o600


def test_users_are_not_given_back_unless_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert give(tmp_path, users=USERS) == 0
    assert read_back(tmp_path).credentials == {}
    assert "users' SCRAM credentials are not asked for (CREDENTIALS=1)" in capsys.readouterr().out


def test_the_registration_and_the_clean_stop_have_one_epoch(tmp_path: Path) -> None:
    assert give(tmp_path) == 0
    epoch = read_back(tmp_path).brokers[1].epoch
    assert (tmp_path / "data" / ".kafka_cleanshutdown").read_text(encoding="utf-8") == f'{{"version": 0, "brokerEpoch": {epoch}}}'


def test_a_second_time_replaces_the_first(tmp_path: Path) -> None:
    assert give(tmp_path) == 0
    once = read_back(tmp_path)
    assert give(tmp_path) == 0
    assert read_back(tmp_path) == once


def test_a_partition_in_doubt_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    doubtful = PartitionState(IN_SYNC.replicas, -1, 0, 7, 9, (InSync(1, 0),))
    assert give(tmp_path, doubtful) == 1
    assert "orders-0 is in doubt" in capsys.readouterr().err


def test_a_damaged_replica_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    withdrawn = PartitionState(IN_SYNC.replicas, -1, 0, 7, 9, IN_SYNC.isr, withdrawn=(InSync(1, 5),))
    assert give(tmp_path, withdrawn) == 1
    assert "the log of orders-0 on node 1 is damaged" in capsys.readouterr().err


def test_an_unclean_stop_is_refused_and_nothing_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert give(tmp_path, clean=False) == 1
    assert "has no .kafka_cleanshutdown" in capsys.readouterr().err
    assert read_back(tmp_path).topics == {}


def test_a_directory_that_was_formatted_for_another_cluster_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    formatted(tmp_path / "metadata", cluster_id="b3RoZXJzLWNsdXN0ZXItMQ")
    log_directory(tmp_path / "data", values=[])
    assert give(tmp_path) == 1
    error = capsys.readouterr().err
    assert f"was formatted for cluster b3RoZXJzLWNsdXN0ZXItMQ, and the logs are those of cluster {CLUSTER}" in error
    assert read_back(tmp_path).topics == {}


def test_a_directory_that_was_not_formatted_or_was_used_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert give(tmp_path) == 0
    (tmp_path / "metadata" / "__cluster_metadata-0").mkdir()
    (tmp_path / "metadata" / "__cluster_metadata-0" / "quorum-state").touch()
    assert give(tmp_path) == 1
    assert "a Kafka has run with" in capsys.readouterr().err
    (tmp_path / "metadata" / "bootstrap.checkpoint").unlink()
    assert give(tmp_path) == 1
    assert "format it first" in capsys.readouterr().err


def test_a_topic_with_three_replicas_keeps_two_in_sync(tmp_path: Path) -> None:
    replicas = tuple([Replica(node_id, DIRECTORY_ID.hex()) for node_id in (1, 2, 3)])
    assert give(tmp_path, replace(IN_SYNC, replicas=replicas)) == 0
    assert read_back(tmp_path).configs[2, "orders"]["min.insync.replicas"] == "2"
