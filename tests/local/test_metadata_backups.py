"""`make backup` and `make restore` on a real cluster."""

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

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
    assert "1 topics with 1 partitions" in penstock("backup", str(file))[-1]
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
    assert "Each partition waits until all its replicas have told" in said[-1]
    penstock("up")
    assert read_all(bootstrap, "t", 0) == [(number, number) for number in range(20)]
    produce(bootstrap, "t", range(20, 30))
    assert len(read_all(bootstrap, "t", 0)) == 30
    resource = ConfigResource(ResourceType.TOPIC, "t")
    assert admin.describe_configs([resource])[resource].result(60)["retention.ms"].value == "777000"


def test_a_cluster_that_is_not_there_is_not_restored(penstock, tmp_path):
    assert "no cluster in" in penstock("restore", str(tmp_path / "none"), succeeds=False)[-1]
