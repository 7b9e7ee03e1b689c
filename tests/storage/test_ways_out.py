"""The advice of storage nodes and of the controller, followed in the situation that logs it."""

import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from libs.cluster import keys
from libs.cluster.codec import decode, encode
from libs.cluster.lost_directories import ANOTHER_IN_SYNC, ELECT, RECREATE
from libs.cluster.records import STORAGE, InSync, PartitionState, Replica, Topic
from libs.commitlog import __main__ as commitlog
from libs.commitlog.files.filesystem import OsFileSystem
from libs.commitlog.model.errors import DirectoryOwnerMismatch
from libs.commitlog.partition_log.directory import STRAY_SUFFIX, LogDirectory
from libs.rpc.client.rpc_client import RpcClient
from libs.rpc.contracts.controller import UNCLEAN, DeleteTopics, ElectLeaders, NewTopic, TopicRef
from libs.rpc.server.rpc_server import Hello
from libs.rpc.transport.socket_transport import SocketTransport
from libs.wire.errors import ErrorCode
from services.controller.core.elections.doubt import in_doubt
from services.controller.elections.log_end_survey import LogSurvey
from services.controller.recovery.disk_reading import DiskReading
from services.storage.disks.missing_directories import NO_LONGER
from services.storage.disks.volume_stamps import WAY_OUT as WENT_BACK
from services.storage.reconcile.log_opening import repair_hint
from services.storage.reconcile.strays import WAY_OUT as STRAY
from services.storage.refusals import OTHER_NODE, REFUSALS, refusal
from tests.controller.images import storage
from tests.controller.running_controller import RunningController, register, running_controller
from tests.storage.cluster import StorageCluster, batch
from tests.storage.three_nodes import Nodes, nodes
from tests.storage.two_directories import stored, with_two_directories
from tests.support.polling import until

TOPIC = b"t".ljust(16, b"\0")


@pytest.fixture
async def two(tmp_path: Path, short_dir: Path) -> AsyncIterator[Nodes]:
    async with nodes(tmp_path, short_dir, (1, 2)) as running:
        yield running


def advice(caplog: pytest.LogCaptureFixture, event: str) -> list[str]:
    """What lines with that event advise, the oldest first."""
    lines = [record.__dict__["fields"] for record in caplog.records if record.message.startswith(event)]
    return [line["way_out"] for line in lines]


LOST = "log directory of a last in-sync replica is not here"
GONE = "the log directory of a last in-sync replica is gone"


@asynccontextmanager
async def controller(two: Nodes) -> AsyncIterator[RunningController]:
    """A controller that really asks nodes for the ends of their logs."""
    hello = Hello("controller", 1, 1, "test", 1, "test-cluster")

    def connect(address: str, node_id: int) -> RpcClient:
        return RpcClient(address, hello, SocketTransport(), expected=(STORAGE, node_id))

    async with running_controller(two.store, survey=LogSurvey(connect, "this-host")) as running:
        await running.elected()
        yield running


def volume(two: Nodes, node_id: int) -> Path:
    return Path(two[node_id].config.directories[0])


def replica(node: StorageCluster) -> Replica:
    assert node.node is not None
    return Replica(node.config.node_id, node.node.opened.disks.directory_ids[0])


async def given(two: Nodes, replicas: tuple[Replica, ...], isr: tuple[int, ...], epoch: int) -> None:
    """The state of the partition, which node 1 leads."""
    members = tuple([InSync(n, two[n].incarnation) for n in isr])
    state = PartitionState(replicas, 1, two[1].incarnation, epoch, epoch, members)
    await two[1].write(keys.partition(TOPIC, 0), encode(state))
    await two[1].write(keys.topic("t"), encode(Topic("t", TOPIC.hex(), 1)))
    await two[1].leads(TOPIC, 0, epoch)


async def lose_the_last_in_sync(two: Nodes, replicas: tuple[int, ...], isr: tuple[int, ...]) -> Path:
    """Node 1 has a record that nobody outside of `isr` has, and loses its log directory. Returns where that is."""
    named = tuple([replica(two[n]) for n in replicas])
    await given(two, named, replicas, 0)
    assert (await two[1].append(TOPIC, batch(b"everywhere"))).error == 0
    await two.alike(TOPIC, replicas)
    if isr != replicas:
        for node_id in set(replicas) - set(isr):
            await two[node_id].stop()
        await given(two, named, isr, 1)
        assert (await two[1].append(TOPIC, batch(b"here alone"))).error == 0
    kept = volume(two, 1).with_name("kept")
    await two[1].stop()
    volume(two, 1).rename(kept)
    return kept


async def led_by(running: RunningController, node_id: int) -> None:
    def led() -> bool:
        state = running.image.partition(TOPIC, 0)
        return state is not None and state.leader == node_id

    await until(led)


@pytest.mark.parametrize("replicas", [(1,), (1, 2)])
async def test_a_directory_that_is_brought_back_has_everything(
    two: Nodes, replicas: tuple[int, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """`bring the directory back`, with which each of the three begins."""
    kept = await lose_the_last_in_sync(two, replicas, (1,))
    await two[1].start()
    async with controller(two) as running:
        await until(lambda: advice(caplog, GONE))
        assert advice(caplog, GONE)[-1].startswith("bring the directory back")
        await two[1].stop()
        shutil.rmtree(volume(two, 1))
        kept.rename(volume(two, 1))
        await two[1].start()
        await led_by(running, 1)
        assert (await stored(two[1], TOPIC))[0] == b"everywhere"
        assert two.home(1, TOPIC).log.log_end_offset == len(replicas)


async def test_another_in_sync_replica_that_comes_back_leads_and_nothing_is_lost(
    two: Nodes, caplog: pytest.LogCaptureFixture
) -> None:
    """An unclean election was advised here, too. It would have been refused, or have lost what node 2 has."""
    await lose_the_last_in_sync(two, (1, 2), (1, 2))
    await two[2].stop()
    await two[1].start()
    async with controller(two) as running:
        await until(lambda: advice(caplog, GONE))
        assert {*advice(caplog, LOST), *advice(caplog, GONE)} == {ANOTHER_IN_SYNC}
        await two[2].start()
        await led_by(running, 2)
        assert running.controller.unclean_elections == 0
        await until(lambda: two.home(2, TOPIC).high_watermark == 1)


async def test_an_unclean_election_is_advised_where_another_replica_is_left_and_it_works(
    two: Nodes, caplog: pytest.LogCaptureFixture
) -> None:
    await lose_the_last_in_sync(two, (1, 2), (1,))
    await two[1].start()
    async with controller(two) as running:
        await until(lambda: advice(caplog, GONE))
        assert {*advice(caplog, LOST), *advice(caplog, GONE)} == {ELECT}
        await two[2].start()
        await running.image_when(lambda image: 2 in image.members(STORAGE))
        reply = await running.controller.elect_leaders(ElectLeaders(UNCLEAN, (("t", 0),)))
        assert [each.error for each in reply.partitions] == [0]
        await led_by(running, 2)
        await until(lambda: two.home(2, TOPIC).log.log_end_offset == 1)


async def test_a_lost_sole_replica_is_begun_anew_as_advised_since_no_election_can_help(
    two: Nodes, caplog: pytest.LogCaptureFixture
) -> None:
    await lose_the_last_in_sync(two, (1,), (1,))
    await two[1].start()
    async with controller(two) as running:
        await until(lambda: advice(caplog, GONE))
        assert {*advice(caplog, LOST), *advice(caplog, GONE)} == {RECREATE}
        refused = await running.controller.elect_leaders(ElectLeaders(UNCLEAN, (("t", 0),)))
        assert [each.error for each in refused.partitions] == [ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]
        request = DeleteTopics((TopicRef("t"),))
        deleted = await running.controller.administer(lambda administration, term: administration.delete_topics(term, request))
        assert [topic.error for topic in deleted.topics] == [0]
        created = (await running.create(NewTopic("t", -1, -1, ((0, (1,)),)))).topics[0]
        assert created.error == 0
        await two[1].leads(created.topic_id, 0, 0)
        assert (await two[1].append(created.topic_id, batch(b"new"))).error == 0


async def test_a_failed_directory_that_is_taken_out_of_use_gives_its_replica_a_new_place(
    cluster: StorageCluster, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = await with_two_directories(cluster)
    state = PartitionState((Replica(1, second), Replica(7, "")), 7, 1, 3, 3, (InSync(7, 1),))
    await cluster.write(keys.partition(TOPIC, 0), encode(state))
    await cluster.write(keys.topic("t"), encode(Topic("t", TOPIC.hex(), 1)))
    await cluster.stop()
    mark = retire(cluster.config.directories[1])
    await cluster.start()
    assert advice(caplog, "log directory is not here, the replica waits for one that failed") == [NO_LONGER]
    await cluster.stop()
    async with running_controller(cluster.store) as running:
        await register(cluster.store, storage(7, 1, ("d",)))
        cluster.config = replace(cluster.config, log_dirs=(cluster.config.directories[0],))
        await cluster.start()
        await until(lambda: running.image.partition(TOPIC, 0).replicas[0] == Replica(1, first))  # type: ignore[union-attr]
        await until(lambda: (TOPIC, 0) in cluster.node.opened.open_logs)  # type: ignore[union-attr]
    assert mark.exists(), "nothing in it was touched"


async def test_a_repaired_directory_serves_its_replica_again(cluster: StorageCluster, caplog: pytest.LogCaptureFixture) -> None:
    """`repair the directory and restart`, with which the advice begins."""
    _, second = await with_two_directories(cluster)
    state = PartitionState((Replica(1, second),), 1, cluster.incarnation, 0, 0, (InSync(1, cluster.incarnation),))
    await cluster.write(keys.partition(TOPIC, 0), encode(state))
    await cluster.write(keys.topic("t"), encode(Topic("t", TOPIC.hex(), 1)))
    await cluster.leads(TOPIC)
    await cluster.append(TOPIC, batch(b"x"))
    await cluster.stop()
    mark = retire(cluster.config.directories[1])
    await cluster.start()
    assert advice(caplog, LOST) == [RECREATE]
    assert RECREATE.startswith("bring the directory back")
    await cluster.stop()
    mark.unlink()
    await cluster.start()
    assert (TOPIC, 0) in cluster.node.opened.open_logs  # type: ignore[union-attr]


async def test_a_directory_of_another_node_is_kept_and_another_one_is_used_as_advised(cluster: StorageCluster) -> None:
    topic = await cluster.topic("theirs")
    await cluster.append(topic, batch(b"x"))
    await cluster.stop()
    theirs = cluster.config.directories[0]
    before = files(theirs)
    cluster.config = replace(cluster.config, node_id=2)
    with pytest.raises(DirectoryOwnerMismatch) as raised:
        await cluster.start()
    refused = refusal(raised.value)
    assert str(refused) == "log directory belongs to another node"
    assert refused.facts["way_out"] == OTHER_NODE
    assert files(theirs) == before
    await cluster.stop()
    cluster.config = replace(cluster.config, log_dirs=(f"{theirs}-of-2",))
    await cluster.start()
    assert files(theirs) == before


@pytest.mark.parametrize("how", ["locked", "retired", "copied", "damaged"])
async def test_a_log_directory_that_cannot_be_used_is_refused_in_one_sentence(cluster: StorageCluster, how: str) -> None:
    """It ended in a traceback."""
    await with_two_directories(cluster)
    await cluster.stop()
    one, two = cluster.config.directories
    held = None
    match how:
        case "locked":
            held = LogDirectory.open(two, OsFileSystem(), new_id=bytes(16), node_id=1)
        case "retired":
            retire(one)
            retire(two)
        case "copied":
            shutil.rmtree(two)
            shutil.copytree(one, two)
        case "damaged":
            Path(two, "meta.properties").write_text("directory.id=nothing\n", encoding="utf-8")  # noqa: ASYNC240
    with pytest.raises(REFUSALS) as raised:
        await cluster.start()
    refused = refusal(raised.value)
    assert str(refused) == "storage node cannot start"
    assert one in str(refused.facts["reason"]) or two in str(refused.facts["reason"])
    assert cluster.node is not None
    cluster.node = None
    if held is not None:
        held.close()


def files(path: str) -> dict[str, int]:
    return {str(each): each.stat().st_mtime_ns for each in Path(path).rglob("*") if each.is_file()}


def retire(path: str) -> Path:
    """Marks a log directory as retired. Returns the mark."""
    mark = Path(path, ".retired")
    mark.write_text("it was slow\n", encoding="utf-8")
    return mark


def strays(cluster: StorageCluster) -> list[Path]:
    return [path for path in Path(cluster.config.directories[0]).iterdir() if path.name.endswith(STRAY_SUFFIX)]


@pytest.mark.parametrize("restored", [True, False], ids=["what is missing is put back", "the loss is accepted"])
async def test_a_partition_that_lost_synced_records_opens_as_advised(
    cluster: StorageCluster, restored: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("services.storage.reconcile.replica_opening.RETRY_S", 0.02)
    topic = await cluster.topic("damaged")
    for value in (b"a", b"b"):
        await cluster.append(topic, batch(value))
    await cluster.stop()
    path = Path(cluster.config.directories[0]) / "damaged-0"
    segment = path / f"{0:020d}.log"
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-1])
    await cluster.start()
    (said,) = advice(caplog, "partition is offline")
    assert said == repair_hint(str(path))
    verify, _, accept_loss = re.findall(r"(?:python -m libs.commitlog (?:verify|accept-loss)|touch) [^;]+", said)
    assert commitlog.main(verify.split()[3:]) == commitlog.PROBLEMS
    if restored:
        segment.write_bytes(whole)
        path.touch()
    else:
        assert commitlog.main(accept_loss.split()[3:]) == commitlog.CLEAN
    await until(lambda: (topic, 0) in cluster.node.opened.open_logs)  # type: ignore[union-attr]
    await cluster.state(topic, epoch=1)
    await cluster.leads(topic, epoch=1)
    assert (await stored(cluster, topic))[:2] == ([b"a", b"b"] if restored else [b"a"])


async def test_a_stray_comes_back_by_the_steps_of_the_page(cluster: StorageCluster, caplog: pytest.LogCaptureFixture) -> None:
    topic = await cluster.topic("precious", epoch=1)
    await cluster.append(topic, batch(b"x"))
    await cluster.stop()
    saved = await cluster.store.get(keys.partition(topic, 0))
    await cluster.write(keys.topic("precious"), None)
    await cluster.write(keys.partition(topic, 0), None)
    await cluster.start()
    assert advice(caplog, "stray partition set aside") == [STRAY]
    await cluster.stop()
    (aside,) = strays(cluster)
    aside.rename(aside.with_name("precious-0"))
    found = DiskReading(OsFileSystem()).read(cluster.config.data_dir, cluster.config.directories)
    assert [(each.topic, each.partition, each.topic_id) for each in found.partitions] == [("precious", 0, topic.hex())]
    assert saved is not None
    await cluster.write(keys.partition(topic, 0), saved.value)  # as `make rebuild` makes it from what is found
    await cluster.write(keys.topic("precious"), encode(Topic("precious", topic.hex(), 1)))
    await cluster.start()
    await cluster.state(topic, epoch=2)
    await cluster.leads(topic, epoch=2)
    assert await stored(cluster, topic) == [b"x"]


@pytest.mark.parametrize("newer", [True, False], ids=["the newer volume is brought back", "all nodes are started"])
async def test_what_a_volume_lacks_that_went_back_is_there_again(
    two: Nodes, newer: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Node 1 was the last in sync, and node 2, which is down, has as much as it had."""
    for node in two.by_id.values():
        await node.stop()
        node.config = replace(node.config, volume_stamp_s=0.05)
        await node.start()
    named = (replica(two[1]), replica(two[2]))
    await given(two, named, (1, 2), 0)
    await append_and_stamp(two, b"first")
    shutil.copytree(volume(two, 1), tmp_path / "snapshot")
    await append_and_stamp(two, b"second")
    await two[2].stop()
    await given(two, named, (1,), 1)
    await two[1].stop()
    volume(two, 1).rename(tmp_path / "newer")
    shutil.copytree(tmp_path / "snapshot", volume(two, 1))
    await two[1].start()
    assert advice(caplog, "log directory is an older copy of itself") == [WENT_BACK]
    async with controller(two) as running:
        await led_by(running, -1)
        if newer:
            await two[1].stop()
            shutil.rmtree(volume(two, 1))
            (tmp_path / "newer").rename(volume(two, 1))
            await two[1].start()
        else:
            await two[2].start()
        await led_by(running, 1 if newer else 2)
        await until(lambda: two.home(1 if newer else 2, TOPIC).log.log_end_offset == 2)


async def stamp(node: StorageCluster) -> int:
    found = await node.store.get(keys.volume_stamp(replica(node).log_dir_id))
    return int(found.value) if found is not None else 0


async def append_and_stamp(two: Nodes, value: bytes) -> None:
    before = await stamp(two[1])
    assert (await two[1].append(TOPIC, batch(value))).error == 0
    await two.alike(TOPIC)

    async def risen() -> bool:
        return await stamp(two[1]) > before

    await until(risen)


async def test_a_node_that_is_lost_for_good_with_the_newest_records_is_gone_without_by_an_unclean_election(
    two: Nodes, caplog: pytest.LogCaptureFixture
) -> None:
    """After its volume went back the other node waits for it; after the metadata were restored, all wait for all."""
    await given(two, (replica(two[1]), replica(two[2])), (1, 2), 0)
    assert (await two[1].append(TOPIC, batch(b"x"))).error == 0
    await two.alike(TOPIC)
    await two[1].stop()
    found = await two.store.get(keys.partition(TOPIC, 0))
    assert found is not None
    await two[2].write(keys.partition(TOPIC, 0), encode(in_doubt(decode(PartitionState, found.value))))
    async with controller(two) as running:
        await led_by(running, -1)
        reply = await running.controller.elect_leaders(ElectLeaders(UNCLEAN, (("t", 0),)))
        assert [each.error for each in reply.partitions] == [0]
        await led_by(running, 2)
    assert "kafka-leader-election --election-type unclean" in WENT_BACK
