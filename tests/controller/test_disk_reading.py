"""What is read from a storage node's disks, and what the commands make of it."""

from pathlib import Path

import pytest

from libs.cluster.codec import decode
from libs.cluster.saved_metadata import IMAGE_FILE
from libs.commitlog.checkpoints.leader_epochs import LeaderEpochs
from libs.commitlog.files.filesystem import OsFileSystem
from libs.commitlog.partition_log.directory import LogDirectory, write_moves
from libs.commitlog.producers.producer_state import ProducerEntry
from services.controller.core.recovery.node_holdings import DeletedPartition, HeldPartition, NodeHoldings
from services.controller.recovery.__main__ import main
from services.controller.recovery.disk_reading import DiskReading
from services.controller.recovery.store_contents import RecoveryRefused
from tests.support.whole_contents import format_snapshot

FS = OsFileSystem()
T, U = bytes([1]) * 16, bytes([2]) * 16
ID = bytes([9]) * 16


def log_directory(path: Path, *, node_id: int = 3, identity: bytes = ID) -> LogDirectory:
    return LogDirectory.open(str(path), FS, new_id=identity, node_id=node_id, cluster_id="c")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data directory of a node that holds t-0 and u-1, and had t-1 and t-2."""
    data = tmp_path / "storage-3"
    directory = log_directory(data / "logs")
    for topic, partition, topic_id in (("t", 0, T), ("t", 1, T), ("t", 2, T), ("u", 1, U)):
        directory.create_partition(topic, partition, topic_id)
    directory.schedule_deletion("t", 1, T)
    directory.set_aside("t", 2, T)
    directory.create_future("t", 0, T, 1)
    epochs = LeaderEpochs([(3, 0), (8, 10)])
    (data / "logs" / "t-0" / "leader-epoch-checkpoint").write_bytes(epochs.format())
    producers = {4711: ProducerEntry(0, (), 77, 0, -1), 12: ProducerEntry(0, (), -1, 0, -1)}
    (data / "logs" / "t-0" / f"{5:020d}.snapshot").write_bytes(format_snapshot({99_999: producers[12]}))
    (data / "logs" / "t-0" / f"{10:020d}.snapshot").write_bytes(format_snapshot(producers))
    write_moves(FS, str(data / "logs" / "u-1"), 2)
    (data / IMAGE_FILE).write_text("what was saved\n", encoding="utf-8")
    directory.close()
    return data


def held(found: NodeHoldings) -> list[tuple[str, int, str, int, int]]:
    return [(each.topic, each.partition, each.topic_id, each.latest_epoch, each.moves) for each in found.partitions]


def read(data: Path, *log_dirs: Path) -> NodeHoldings:
    return DiskReading(FS).read(str(data), [str(path) for path in log_dirs or (data / "logs",)])


def test_partitions_are_read_with_their_epochs_without_deleted_and_stray_ones(data: Path) -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in data.rglob("*"))
    found = read(data)
    assert (found.node_id, found.cluster_id, found.directories) == (3, "c", (ID.hex(),))
    assert held(found) == [("t", 0, T.hex(), 8, 0), ("u", 1, U.hex(), -1, 2)]
    assert found.partitions[0].written_ms > 0
    assert found.deleted == (DeletedPartition(T.hex(), 1),)
    assert found.highest_producer_id == 4711
    assert found.highest_owner_epoch == 77
    assert found.saved_image == "what was saved\n"
    assert found.problems == ()
    assert sorted((path, path.stat().st_mtime_ns) for path in data.rglob("*")) == before, "nothing was changed"


def test_a_directory_without_a_sound_identity_is_named_if_it_holds_segments(data: Path) -> None:
    for name in ("v-0", "w-0"):
        (data / "logs" / name).mkdir()
    (data / "logs" / "v-0" / f"{0:020d}.log").touch()
    damaged = data / "logs" / "u-1" / "partition.metadata"
    damaged.write_bytes(damaged.read_bytes().replace(b"A", b"B"))
    (data / "logs" / "u-1" / f"{0:020d}.log").touch()
    found = read(data)
    assert HeldPartition("v", 0, "", ID.hex()) in found.partitions
    assert ("u", 1, "", -1, 2) in held(found)
    assert not any(each.topic == "w" for each in found.partitions)
    assert len(found.problems) == 2


def test_a_log_directory_that_cannot_be_read_is_reported_and_the_others_are_read(data: Path, tmp_path: Path) -> None:
    second = tmp_path / "second"
    log_directory(second, identity=bytes([8]) * 16).close()
    assert read(data, data / "logs", second).directories == (ID.hex(), (bytes([8]) * 16).hex())
    (second / ".retired").touch()
    found = read(data, data / "logs", second, tmp_path / "none")
    assert found.directories == (ID.hex(),)
    assert ["retired" in found.problems[0], "does not say whose it is" in found.problems[1]] == [True, True]


def test_directories_in_use_of_two_nodes_or_of_nobody_are_refused(data: Path, tmp_path: Path) -> None:
    with pytest.raises(RecoveryRefused, match="no log directory"):
        read(tmp_path / "none")
    other = log_directory(tmp_path / "other", node_id=4)
    with pytest.raises(RecoveryRefused, match="uses"):
        read(data, data / "logs", tmp_path / "other")
    other.close()
    with pytest.raises(RecoveryRefused, match="not of one node"):
        read(data, data / "logs", tmp_path / "other")


def test_copies_of_disks_from_another_host_serve_as_the_disks_do(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (data / IMAGE_FILE).unlink()
    assert main(["collect", str(data)]) == 0
    file = tmp_path / "node-3.json"
    file.write_text(capsys.readouterr().out, encoding="utf-8")
    assert decode(NodeHoldings, file.read_bytes()) == read(data)
    said = []
    for source in (str(data), f"{data}={data / 'logs'}", str(file)):
        assert main(["rebuild", "--dry-run", source]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] == said[2]
    assert "would rebuild the metadata of cluster c from storage nodes 3" in said[0]
    assert "topics: 2, partitions: 3" in said[0]
    assert main(["rebuild", "--dry-run", str(data), str(file)]) == 1
    assert "several of these are node 3" in capsys.readouterr().err


def test_a_damaged_copy_of_the_image_is_reported_and_costs_no_topic(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rebuild", "--dry-run", str(data)]) == 0
    said = capsys.readouterr().out
    assert "node 3: its copy of the cluster image cannot be used: it was cut short or changed" in said
    assert "topics: 2, partitions: 3" in said
