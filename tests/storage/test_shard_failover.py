"""A shard on three replicas, while owners and leaders change and nodes stop: what was acknowledged is never missing again."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.records import InSync, PartitionState, Replica, Topic
from libs.wire.errors import ErrorCode
from tests.coordinator.shelf import Add, Put, Read
from tests.coordinator.submissions import submit_to_shard
from tests.storage.shard_coordinator import Coordinator
from tests.storage.three_nodes import Nodes, nodes
from tests.support.polling import until

NAME = "__consumer_offsets"
TOPIC = NAME.encode().ljust(16, b"\0")[:16]


@pytest.fixture
async def three(tmp_path: Path, short_dir: Path) -> AsyncIterator[Nodes]:
    async with nodes(tmp_path, short_dir) as running:
        yield running


class Office:
    """Plays the controller for one partition."""

    def __init__(self, three: Nodes) -> None:
        self.three = three
        self.up = {1, 2, 3}
        self.isr = (1, 2, 3)
        self.leader, self.leader_epoch, self.partition_epoch = 1, 0, 0
        self.owner, self.owner_epoch = "", 0

    async def write(self) -> None:
        self.partition_epoch += 1
        alive = tuple(InSync(node_id, self.three[node_id].incarnation) for node_id in self.isr)
        state = PartitionState(
            tuple(Replica(node_id, "") for node_id in (1, 2, 3)),
            self.leader,
            self.three[self.leader].incarnation,
            self.leader_epoch,
            self.partition_epoch,
            alive,
            self.owner,
            self.owner_epoch,
        )
        await self.three[self.leader].write(keys.partition(TOPIC, 0), encode(state))

    async def lead(self, leader: int) -> None:
        self.leader, self.leader_epoch = leader, self.leader_epoch + 1
        self.isr = tuple(sorted(self.up))
        await self.write()

    async def give(self, owner: Coordinator) -> None:
        self.owner, self.owner_epoch = str(owner.owner), self.owner_epoch + 1
        await self.write()


@pytest.mark.parametrize("seed", range(6))
async def test_nothing_acknowledged_is_missing_whoever_leads_and_owns(three: Nodes, seed: int) -> None:
    random = Random(seed)
    office = Office(three)
    owners = [await Coordinator(three[1], node_id).start() for node_id in (11, 12)]
    await office.give(owners[0])
    await three[1].write(keys.topic(NAME), encode(Topic(NAME, TOPIC.hex(), 1, internal=True)))
    tried = acked = 0
    stop = asyncio.Event()

    async def ask() -> None:
        """One at a time, of whoever has an answer: each acknowledged number is higher than the last."""
        nonlocal tried, acked
        while not stop.is_set():
            for owner in owners:
                tried += 1
                answer = await submit_to_shard(owner.shards, 0, Add("n", 1))
                if not answer.error:
                    assert acked < int(answer.reply) <= tried
                    acked = int(answer.reply)
            await asyncio.sleep(0.001)

    reads = asyncio.create_task(ask())
    try:
        for _ in range(30):
            before = acked
            match random.randrange(4):
                case 0:
                    await office.give(random.choice(owners))
                case 1:
                    await office.lead(random.choice(sorted(office.up)))
                case 2 if len(office.up) == 3:  # for good: it would have to catch up before it counts again
                    gone = random.choice((office.leader, 2, 3))
                    office.up.discard(gone)
                    await office.lead(min(office.up) if gone == office.leader else office.leader)
                    await three[gone].stop()
                case _:
                    await office.lead(office.leader)
            await until(lambda before=before: acked > before or reads.done())
            if reads.done():
                break
    finally:
        stop.set()
        await reads
        try:
            last = next(one for one in owners if str(one.owner) == office.owner)
            await last.serves(0)
            assert acked <= int(await last.said(0, Read("n", current=True))) <= tried
        finally:
            for one in owners:
                await one.close()


# -- reads of an owner that was replaced and hears of nothing ---------------------------------------------------------------


class Replaced:
    """An owner whose image stands still. Its successor has changed what both know."""

    def __init__(self, three: Nodes, office: Office, owner: Coordinator, successor: Coordinator) -> None:
        self.three, self.office, self.owner, self.successor = three, office, owner, successor

    async def replace(self) -> None:
        assert await self.owner.said(0, Read("n", current=True)) == "1"
        await self.owner.follower.close()
        await self.office.give(self.successor)

    async def change(self) -> None:
        await self.successor.serves(0)
        assert await self.successor.said(0, Put("n", 2)) == "2"

    async def read(self) -> str | int:
        return await self.owner.said(0, Read("n", current=True))

    async def deafen(self, node_id: int) -> None:
        """The node hears of no image any more."""
        node = self.three[node_id].node
        assert node is not None
        await node.image_follower.close()


@pytest.fixture
async def replaced(three: Nodes) -> AsyncIterator[Replaced]:
    office = Office(three)
    owners = [await Coordinator(three[1], node_id).start() for node_id in (11, 12)]
    await office.give(owners[0])
    await three[1].write(keys.topic(NAME), encode(Topic(NAME, TOPIC.hex(), 1, internal=True)))
    await owners[0].serves(0)
    assert await owners[0].said(0, Put("n", 1)) == "1"
    yield Replaced(three, office, *owners)
    for one in owners:
        await one.close()


async def test_a_replaced_owner_is_not_confirmed_by_the_leader(replaced: Replaced) -> None:
    await replaced.replace()
    await replaced.change()
    assert await replaced.read() == ErrorCode.NOT_COORDINATOR


async def test_a_replaced_owner_is_not_confirmed_by_a_leader_that_only_knows_the_successors_claim(replaced: Replaced) -> None:
    await replaced.deafen(1)
    await replaced.replace()
    await replaced.change()
    assert await replaced.read() == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("leaders", [(2,), (2, 1), (1,)], ids=["another", "another, and the first again", "the first again"])
async def test_a_replaced_owner_is_not_confirmed_in_a_later_leader_epoch(replaced: Replaced, leaders: tuple[int, ...]) -> None:
    await replaced.replace()
    for leader in leaders:
        await replaced.office.lead(leader)
        await replaced.three[leader].leads(TOPIC, 0, replaced.office.leader_epoch)
    await until(lambda: not replaced.three.home(1, TOPIC).leading or leaders[-1] == 1)
    await replaced.change()
    assert type(await replaced.read()) is int


async def test_a_leader_that_was_replaced_too_confirms_no_replaced_owner(replaced: Replaced) -> None:
    """Neither of them has heard of it. The leader is told by its followers, which no longer pull from it."""
    await replaced.deafen(1)
    await replaced.replace()
    replaced.office.up.discard(1)
    await replaced.office.lead(2)
    await replaced.three[2].leads(TOPIC, 0, replaced.office.leader_epoch)
    await replaced.change()
    assert type(await replaced.read()) is int, "its successor has said 2"


async def test_an_owner_is_confirmed_while_the_store_is_away(replaced: Replaced) -> None:
    """*Rule: an outage of the store is not a death.*"""
    replaced.three.store.unavailable = True
    assert await replaced.read() == "1"
