"""`make backup` and `make restore` on a real cluster."""

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.support.launcher import run_unheard
from tests.system.faults.produce_run import read_all


def produce(bootstrap, topic, numbers):
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True})
    for number in numbers:
        producer.produce(topic, f"0:{number}".encode(), partition=0)
    assert producer.flush(60) == 0


def test_a_cluster_goes_on_from_a_backup_of_its_metadata_and_keeps_every_record(penstock, tmp_path):
    file = tmp_path / "metadata.backup"
    bootstrap = penstock("up", f"--port={penstock.port}", "--storage=2")[-1].removeprefix("bootstrap.servers=")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("t", 1, 2, config={"retention.ms": "777000"})])["t"].result(60)
    produce(bootstrap, "t", range(10))
    upsertion = UserScramCredentialUpsertion("alice", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), b"alice-secret")
    admin.alter_user_scram_credentials([upsertion])["alice"].result(60)
    said = penstock("backup", str(tmp_path / "plain"))
    assert "SCRAM credentials are not in it" in said[-1]
    assert "stored_key" not in (tmp_path / "plain").read_text(encoding="utf-8")
    said = penstock("backup", "--with-credentials", str(file))
    assert "1 topics with 1 partitions" in said[-2]
    assert "the SCRAM credentials of 1 user are in it" in said[-1]
    assert oct(file.stat().st_mode & 0o777) == "0o600"
    assert f"`make down RUN={tmp_path / 'run'}` first" in penstock("restore", str(file), succeeds=False)[-1]
    penstock("down")
    penstock("up")
    produce(bootstrap, "t", range(10, 20))
    penstock("down")

    assert f"`make up RUN={tmp_path / 'run'}` first" in penstock("backup", str(tmp_path / "later"), succeeds=False)[-1]
    etcd = tmp_path / "run" / "data" / "etcd"
    marker = etcd / "of the former etcd"
    marker.touch()
    damaged = tmp_path / "damaged"
    damaged.write_bytes(file.read_bytes()[:-40])
    assert "cut short or changed" in penstock("restore", str(damaged), succeeds=False)[-1]
    assert marker.exists(), "the former etcd is back after a restore that failed"

    run_unheard(tmp_path / "run", "restore", str(file))
    assert not marker.exists(), "a restore whose output nobody reads is done all the same"
    assert [path.name for path in etcd.parent.glob("etcd-before-*") if (path / marker.name).exists()]
    said = penstock("restore", str(file))
    assert "users: 1 user, with their SCRAM credentials" in "".join(said)
    assert "Each partition waits until all its replicas have told" in said[-1]
    penstock("up")
    assert read_all(bootstrap, "t", 0) == [(number, number) for number in range(20)]
    produce(bootstrap, "t", range(20, 30))
    assert len(read_all(bootstrap, "t", 0)) == 30
    assert admin.describe_user_scram_credentials(["alice"])["alice"].result(60).scram_credential_infos
    resource = ConfigResource(ResourceType.TOPIC, "t")
    assert admin.describe_configs([resource])[resource].result(60)["retention.ms"].value == "777000"


def test_a_cluster_that_is_not_there_is_not_restored(penstock, tmp_path):
    assert "no cluster in" in penstock("restore", str(tmp_path / "none"), succeeds=False)[-1]
