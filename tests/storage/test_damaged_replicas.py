"""A replica whose log is damaged: withdrawn while somebody counts on it, copied anew as soon as nobody does."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.records import ElectedController, Member, Topic
from libs.rpc.contracts.controller import WITHDRAW, Withdraw, WithdrawReply
from libs.rpc.messages.schema import unpack
from libs.rpc.server.call import Call
from libs.rpc.server.rpc_server import Hello, RpcServer
from libs.rpc.transport.socket_transport import SocketTransport
from libs.wire.errors import ErrorCode
from tests.storage.cluster import StorageCluster, batch
from tests.storage.three_nodes import Nodes, nodes
from tests.support.polling import until


class PlayedController:
    """Elected, and told of withdrawn replicas."""

    def __init__(self, cluster: StorageCluster, sockets: Path) -> None:
        self.withdrawals: list[Withdraw] = []
        self.registered: list[bool] = []
        """Whether the node was, when it told."""
        self._cluster = cluster
        self._address = f"unix:{sockets}/controller"
        hello = Hello("controller", 0, 1, "test", 1, "test-cluster")
        self._server = RpcServer(lambda: hello, {WITHDRAW: self._withdraw}, transport=SocketTransport())

    async def start(self) -> None:
        await self._server.listen(self._address)
        member = Member("controller", 0, 1, "this-host", unix_address=self._address)
        await self._cluster.write(keys.member("controller", 0), encode(member))
        await self._cluster.write(keys.CONTROLLER, encode(ElectedController(0, 1)))

    async def stop(self) -> None:
        await self._server.close(drain_s=0.0)

    def _withdraw(self, call: Call) -> None:
        request = unpack(Withdraw, call.body)
        self.withdrawals.append(request)
        self.registered.append(self._cluster.store.keyspace.get(keys.member("storage", request.node_id)) is not None)
        call.reply(WithdrawReply(1))


@pytest.fixture
async def three(tmp_path: Path, short_dir: Path) -> AsyncIterator[Nodes]:
    async with nodes(tmp_path, short_dir) as running:
        yield running


@pytest.fixture
async def controller(three: Nodes, short_dir: Path) -> AsyncIterator[PlayedController]:
    played = PlayedController(three[1], short_dir)
    await played.start()
    yield played
    await played.stop()


def log_directory(three: Nodes, node_id: int) -> Path:
    return Path(three[node_id].config.directories[0])


async def damaged(three: Nodes, node_id: int, topic: bytes, name: str, how: str) -> None:
    """The node is down, and what it had is not what it wrote."""
    await three.alike(topic)
    await three[node_id].stop()
    path = log_directory(three, node_id) / f"{name}-0"
    (log_directory(three, node_id) / ".kafka_cleanshutdown").unlink()
    if how == "gone":
        shutil.rmtree(path)
    else:
        segment = next(path.glob("*.log"))
        segment.write_bytes(segment.read_bytes()[:100])


@pytest.mark.parametrize("how", ["gone", "cut"])
async def test_a_damaged_replica_is_withdrawn_and_copied_anew_when_it_is_not_counted_on(
    three: Nodes, controller: PlayedController, how: str
) -> None:
    topic = await three.topic("precious", leader=1)
    for number in range(10):
        assert (await three[1].append(topic, batch(b"%d" % number))).error == 0
    await damaged(three, 3, topic, "precious", how)
    await three[3].start()
    await until(lambda: controller.withdrawals)
    asked = controller.withdrawals[0]
    assert (asked.node_id, asked.incarnation, asked.partitions) == (3, 2, ((topic, 0),))
    assert three[3].node is not None
    assert (topic, 0) in three[3].node.partitions.broken
    # The controller takes it out of the ISR.
    await three.lead(topic, 1, isr=(1, 2))
    await three.alike(topic)
    assert (topic, 0) not in three[3].node.partitions.broken
    strays = [path.name for path in log_directory(three, 3).iterdir() if path.name.endswith("-stray")]
    assert len(strays) == (how == "cut")


async def test_a_damaged_replica_is_withdrawn_before_its_node_registers(three: Nodes, controller: PlayedController) -> None:
    """When all stopped at once, the first one back is elected, and alone in the ISR: that must not be the damaged one."""
    topic = await three.topic("early", leader=1)
    await three[1].append(topic, batch(b"x"))
    await damaged(three, 3, topic, "early", "gone")
    await three[3].start()
    assert controller.registered[0] is False
    assert controller.withdrawals[0].partitions == ((topic, 0),)


async def test_a_replica_that_cannot_be_opened_for_now_leaves_the_lead_to_others(
    three: Nodes, controller: PlayedController
) -> None:
    """Nothing is wrong with what it has; but nobody could write or read while its node had the lead."""
    topic_id = b"unopened".ljust(16, b"\0")
    in_the_way = log_directory(three, 1) / "unopened-0"
    in_the_way.write_text("not a directory", encoding="utf-8")
    await three.elect(topic_id, 1)
    await three[1].write(keys.topic("unopened"), encode(Topic("unopened", topic_id.hex(), 1)))
    await until(lambda: controller.withdrawals)
    asked_for = controller.withdrawals[0]
    assert (asked_for.node_id, asked_for.partitions, asked_for.for_now) == (1, (), ((topic_id, 0),))
    await three.lead(topic_id, 2, isr=(2, 3))
    asked = len(controller.withdrawals)
    assert (await three[2].append(topic_id, batch(b"x"))).error == 0
    in_the_way.unlink()
    await three.alike(topic_id)
    assert len(controller.withdrawals) == asked


async def test_a_leader_that_meets_damage_asks_to_be_replaced_and_copies_the_log_anew(
    three: Nodes, controller: PlayedController
) -> None:
    topic = await three.topic("rotten", leader=1)
    for number in range(10):
        assert (await three[1].append(topic, batch(b"%d" % number))).error == 0
    await three.alike(topic)
    await three[1].stop()  # cleanly: nobody reads it when it starts
    segment = next((log_directory(three, 1) / "rotten-0").glob("*.log"))
    with segment.open("r+b") as file:
        file.seek(segment.stat().st_size // 2 + 8)
        file.write(bytes(4))
    await three[1].start()
    await three.lead(topic, 1)
    await until(lambda: three.home(1, topic).high_watermark == 10)
    assert (await three[1].fetch(topic, 5)).error == ErrorCode.KAFKA_STORAGE_ERROR
    await until(lambda: controller.withdrawals)
    asked = controller.withdrawals[0]
    assert (asked.node_id, asked.partitions, asked.for_now) == (1, (), ((topic, 0),))
    await three.lead(topic, 2, isr=(2, 3))

    def strays() -> list[str]:
        return [path.name for path in log_directory(three, 1).iterdir() if path.name.endswith("-stray")]

    await until(strays)  # the damaged log has the right end, too
    await three.alike(topic)
    assert len(strays()) == 1
    await three.lead(topic, 1)
    assert (await three[1].fetch(topic, 5)).error == 0


async def test_a_leader_that_meets_damage_and_has_nobody_beside_it_goes_on(three: Nodes, controller: PlayedController) -> None:
    topic = await three.topic("alone", leader=1, replicas=(1,))
    for number in range(4):
        assert (await three[1].append(topic, batch(b"%d" % number))).error == 0
    segment = next((log_directory(three, 1) / "alone-0").glob("*.log"))
    with segment.open("r+b") as file:
        file.seek(segment.stat().st_size // 2 + 8)
        file.write(bytes(4))
    assert (await three[1].fetch(topic, 2)).error == ErrorCode.KAFKA_STORAGE_ERROR
    assert (await three[1].append(topic, batch(b"y"))).error == 0
    assert (await three[1].fetch(topic, 0, max_bytes=100)).error == 0
    assert controller.withdrawals == []


async def test_a_copy_that_was_made_anew_outlives_an_unclean_stop(three: Nodes, controller: PlayedController) -> None:
    """The checkpoints of the damaged replica are forgotten."""
    topic = await three.topic("again", leader=1)
    for _ in range(10):
        await three[1].append(topic, batch(b"x"))
    await damaged(three, 3, topic, "again", "gone")
    await three.elect(topic, 1, isr=(1, 2))
    await three[1].stop()  # nobody to copy from
    await three[3].start()
    await until(lambda: three.home(3, topic) if (log_directory(three, 3) / "again-0").exists() else None)
    await three[3].stop()
    (log_directory(three, 3) / ".kafka_cleanshutdown").unlink()
    await three[3].start()
    assert three[3].node is not None
    assert (topic, 0) not in three[3].node.partitions.broken
    await three[1].start()
    await three.lead(topic, 1, isr=(1, 2))
    await three.alike(topic)


async def test_a_damaged_replica_that_was_damaged_before_is_set_aside_beside_the_other(
    three: Nodes, controller: PlayedController
) -> None:
    topic = await three.topic("twice", leader=1)
    for _ in range(10):
        await three[1].append(topic, batch(b"x"))
    for times in (1, 2):
        await damaged(three, 3, topic, "twice", "cut")
        await three.elect(topic, 1, isr=(1, 2))
        await three[3].start()
        await three.alike(topic)
        strays = [path.name for path in log_directory(three, 3).iterdir() if path.name.endswith("-stray")]
        assert len(strays) == times


async def test_a_replica_that_moved_away_is_removed_and_comes_back_empty(three: Nodes) -> None:
    topic = await three.topic("moving", leader=1)
    await three[1].append(topic, batch(b"x"))
    await three.alike(topic)
    await three.elect(topic, 1, replicas=(1, 2))
    await until(lambda: not any(path.name.startswith("moving") for path in log_directory(three, 3).iterdir()))
    await three.elect(topic, 1, replicas=(1, 2, 3), isr=(1, 2))
    await three.alike(topic)
