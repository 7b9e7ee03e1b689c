"""Consumer groups of a run: their members, who owns their shards, and what must be true of them in the end (7, 8 and 15)."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from libs.cluster import keys
from libs.cluster.codec import decode
from libs.cluster.records import PartitionState, Topic
from libs.cluster.topic_names import GROUP_TOPIC
from libs.coordinator.core.shard_hashing import shard_of
from libs.coordinator.core.states import State
from libs.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from libs.wire.messages.describe_groups import DescribeGroupsRequest
from tests.simulation.cluster import kafka_client, kafka_groups
from tests.simulation.cluster.classic_members import ClassicMember
from tests.simulation.cluster.clients import REQUEST_S, RETRY_S, Client
from tests.simulation.cluster.consumer_members import ConsumerMember
from tests.simulation.cluster.coordinator_process import CoordinatorProcess
from tests.simulation.cluster.group_members import SESSION_S, Group, Member
from tests.simulation.cluster.group_promises import Promises
from tests.simulation.cluster.kafka_client import Disconnected, Partition
from tests.simulation.cluster.lasting_offsets import ClocksSetAhead
from tests.simulation.cluster.processes import StorageProcess
from tests.simulation.cluster.shard_loading import differences
from tests.simulation.cluster.shard_owners import ShardOwners
from tests.simulation.cluster.world import World

SHARDS = 4
GROUPS: Mapping[str, tuple[type[Member], int, tuple[str, ...]]] = {
    "readers": (ClassicMember, 3, ("orders", "clicks")),
    "tailers": (ClassicMember, 2, ("clicks",)),
    "followers": (ConsumerMember, 3, ("orders", "clicks")),
}
"""Each is in a shard of its own. Protocol, members, topics; the first member is static."""
SETTINGS = (
    ("group.initial.rebalance.delay.ms", "500"),
    ("group.consumer.min.heartbeat.interval.ms", "1000"),
    ("group.consumer.heartbeat.interval.ms", "1000"),
    ("group.consumer.min.session.timeout.ms", str(int(SESSION_S * 1000))),
    ("group.consumer.session.timeout.ms", str(int(SESSION_S * 1000))),
)
"""In this order none contradicts those before."""
SURE_S = SESSION_S / 2
"""Who was heard of so lately is a member. A coordinator whose wall clock was set forward catches up at half as fast again
(`steady_time.py`): a session of 6 s is over after 4."""
STABLE = "Stable"
SETTLED_S = 60.0

POINTS = (
    "a shard with members was taken over",
    "a shard was taken over amid a rebalance",
    "a member that lives was fenced",
    "a member left",
    "a member fell silent",
    "a static member fell silent",
    "a static member left for a while",
    "a dead member's commit was refused",
    "a commit of an old generation was refused",
    "a client committed an older offset",
    "a commit whose fate is not known was sent again",
    "a deposed owner still took itself for the owner",
    "a deposed owner heard so from its log first",
    "a shard was taken over while a silent member had its session",
)
"""What the runs of a set must have come by."""


class Groups:
    def __init__(
        self,
        world: World,
        client: Client,
        coordinators: Sequence[CoordinatorProcess],
        storage: Sequence[StorageProcess],
        bootstrap: Sequence[tuple[str, int]],
        hosts: Sequence[str],
        partitions: Sequence[Partition],
    ) -> None:
        self.world, self._client, self._coordinators, self._storage = world, client, coordinators, storage
        self._owners = ShardOwners(world, GROUP_TOPIC, self._moved)
        self._clocks = ClocksSetAhead(world, coordinators)
        self._seen = ""
        """What a group is found to be, while that is not what it must become."""
        self.groups: dict[str, Group] = {}
        self.members: list[Member] = []
        for name, (kind, count, topics) in GROUPS.items():
            group = self.groups[name] = self._group(name, [one for one in partitions if one[0] in topics])
            for number in range(count):
                host = hosts[len(self.members) % len(hosts)]
                static = f"{name}-static" if number == 0 else None
                self.members.append(kind(world, group, f"{name}-{number + 1}", host, bootstrap, static))

    def _group(self, name: str, partitions: Sequence[Partition]) -> Group:
        shard = shard_of(name, SHARDS)
        promises = Promises(self.world, name, SURE_S, f"{name}-static", classic=GROUPS[name][0] is ClassicMember)
        return Group(name, partitions, promises, lambda: self._alone(shard))

    @property
    def partitions(self) -> list[Partition]:
        """The partitions of the topic of groups."""
        return [(GROUP_TOPIC, index) for index in range(SHARDS)]

    @property
    def operations(self) -> int:
        return sum(member.operations for member in self.members)

    def members_of(self, name: str) -> list[Member]:
        return [member for member in self.members if member.group.name == name]

    # --- phases

    async def configure(self) -> None:
        for name, value in SETTINGS:
            await self._insist(lambda name=name, value=value: self._set(name, value))  # type: ignore[misc]

    async def _set(self, name: str, value: str) -> bool:
        return not await kafka_client.configure(await self._client.any_gateway(), "", name, value, REQUEST_S)

    def start(self) -> list[asyncio.Task[None]]:
        """Starts the members, once the topics are there."""
        self._clocks.armed = True
        topics = [decode(Topic, item.value) for item in self.world.keyspace.range(keys.TOPICS).items]
        ids = {topic.name: bytes.fromhex(topic.topic_id) for topic in topics}
        for member in self.members:
            if isinstance(member, ConsumerMember):
                member.topic_ids = ids
        return [asyncio.get_running_loop().create_task(member.run()) for member in self.members]

    def steady(self) -> None:
        """No member dies from here on."""
        for member in self.members:
            member.be_steady()

    def stop(self) -> None:
        for member in self.members:
            member.stop()

    def all_have_committed(self) -> bool:
        """Whether each group has offsets. One without goes with its last member, and a member is told that there is none."""
        return all(any(group.promises.last_acknowledged(one) >= 0 for one in group.partitions) for group in self.groups.values())

    def unsettled(self, ends: Mapping[Partition, int]) -> str:
        """The reason why groups are not settled: a partition is not read to its end by one member of each group and committed."""
        for name, group in self.groups.items():
            held = sorted(partition for member in self.members_of(name) for partition in member.positions)
            if held != sorted(group.partitions):
                return f"group {name}: {held} are read"
            for partition in group.partitions:
                committed = group.promises.last_acknowledged(partition)
                if committed < ends[partition]:  # beyond it: what a producer gave up waiting for was appended since
                    return f"group {name}: {partition} ends at {ends[partition]}, committed is {committed}"
        return ""

    async def look(self, ends: Mapping[Partition, int], end: Callable[[Partition], Awaitable[int]]) -> None:
        """Compares the committed offsets with what a fetch answers, when all is settled. `end`: the partition's end, now."""
        for name, group in self.groups.items():
            # A member has all that it is to have before it hears of the epoch: with its next heartbeat.
            await self._insist(lambda name=name: self._is_stable(name))  # type: ignore[misc]
            self._seen = ""
            await self._insist(lambda group=group: self._has_committed(group, ends, end))  # type: ignore[misc]

    async def _is_stable(self, name: str) -> bool:
        link = await self._client.any_gateway()
        state, shares = await described(link, name, GROUPS[name][0] is ConsumerMember)
        given = sorted(partition for share in shares for partition in share)
        self._seen = f"group {name} is {state}, {given} are assigned"
        return state == STABLE and given == sorted(self.groups[name].partitions)

    async def _has_committed(
        self, group: Group, ends: Mapping[Partition, int], end: Callable[[Partition], Awaitable[int]]
    ) -> bool:
        begun = group.promises.turn()
        request = kafka_groups.fetch(group.name, group.partitions)
        error, offsets = kafka_groups.fetched(await kafka_groups.ask(await self._client.any_gateway(), request, REQUEST_S))
        if error:
            return False
        given_up = {partition for partition, offset in offsets.items() if group.promises.in_doubt(partition, offset)}
        group.promises.fetched(begun, offsets)
        for partition, offset in offsets.items():
            most = ends[partition] if offset == ends[partition] else await end(partition)
            least = 0 if partition in given_up else ends[partition]  # what its client gave up waiting for may land last
            if not least <= offset <= most:
                self.world.violation(f"8: group {group.name}: in the end {offset} of {partition} is committed, of {most}")
        return True

    async def _insist(self, work: Callable[[], Awaitable[bool]]) -> None:
        deadline = self.world.loop.time() + SETTLED_S
        while self.world.loop.time() < deadline:
            try:
                if await work():
                    return
            except Disconnected:
                pass
            await asyncio.sleep(RETRY_S)
        raise TimeoutError(self._seen or "nobody answers")

    # --- owners

    def _moved(self, shard: int, state: PartitionState) -> None:
        self._clocks.shard_given(state.owner)
        for name in self.groups:
            if shard_of(name, SHARDS) == shard:
                members = self.members_of(name)
                sometimes = self.world.sometimes
                sometimes("a shard with members was taken over", any(member.positions for member in members))
                sometimes("a shard was taken over amid a rebalance", any(member.joining for member in members))
                awaited = any(self.world.loop.time() < member.awaited_until for member in members)
                sometimes("a shard was taken over while a silent member had its session", awaited)

    def _alone(self, shard: int) -> bool:
        """Whether nobody takes itself for the owner of the shard who is not."""
        state = self._owners.states.get(shard)
        for process in self._coordinators:
            driver = process.what.shards.owned.get(shard) if process.what is not None else None
            if driver is None:
                continue
            if state is None or (str(process.what.owner), driver.owner_epoch) != (state.owner, state.owner_epoch):
                self.world.sometimes("a deposed owner still took itself for the owner")
                self.world.sometimes("a deposed owner heard so from its log first", driver.state is State.CLOSED)
                return False
        return True

    # --- shards

    def not_as_in_the_log(self) -> str:
        """8: what a shard's owner serves is what its log says. What is missing for a comparison."""
        for index in range(SHARDS):
            state = self._owners.states[index]
            process = next(
                (one for one in self._coordinators if one.what is not None and str(one.what.owner) == state.owner), None
            )
            driver = process.what.shards.owned.get(index) if process is not None else None
            leader = next((one for one in self._storage if one.running and one.node_id == state.leader), None)
            if process is None or driver is None or driver.state is not State.SERVING or leader is None:
                return f"shard {index} is not served"
            partition = leader.what.partitions.by_key[self._owners.topic_id, index]
            if driver.shard.pending.groups or not driver.shard.position == partition.high_watermark == partition.log_end_offset:
                return f"shard {index} is written to"
            names = [name for name in self.groups if shard_of(name, SHARDS) == index]
            for what in differences(process.what, driver.machine, partition, names):
                self.world.violation(f"8: shard {index}: {what}")
        return ""


async def described(link: kafka_client.Link, name: str, consumer: bool) -> tuple[str, list[list[Partition]]]:
    """Its state, and what each member has. Raises Disconnected."""
    if not consumer:
        (classic,) = (await kafka_groups.ask(link, DescribeGroupsRequest([name]), REQUEST_S)).groups
        _answered(classic)
        return classic.group_state, [sorted(kafka_groups.assigned(member.member_assignment)) for member in classic.members]
    (found,) = (await kafka_groups.ask(link, ConsumerGroupDescribeRequest([name]), REQUEST_S)).groups
    _answered(found)
    shares = [
        [(topic.topic_name, index) for topic in member.assignment.topic_partitions for index in topic.partitions]
        for member in found.members
    ]
    return found.group_state, shares


def _answered(described: Any) -> None:
    if described.error_code:
        raise Disconnected(f"error {described.error_code}", sent=True)
