"""The promises of one life of a compacted topic, and its clients.

A key whose last acknowledged record is a tombstone shows no older value any more: to no reader, and on no replica in sync. An
acknowledged value stays until a later record of its key. Nothing of a former topic of that name shows. Numbers are those of the
list in docs/simulation.md.
"""

import asyncio
from collections import Counter

from tests.simulation.cluster.clients import Client, Values
from tests.simulation.cluster.compacted_topic import Entries, Names, NamesProducer, NamesReader, latest
from tests.simulation.cluster.kafka_client import Partition
from tests.simulation.cluster.recorder import Recorder
from tests.simulation.cluster.world import World
from tests.simulation.compacted import Keyed, revived

BURST_S = 2.5
"""So long keys get values and tombstones. Then most stay as they are, and others fill segments."""
KEYS, FILLERS = 10, 3
BURST_PAUSE_S, PAUSE_S = 0.05, 0.2
TOMBSTONES, LATE_SHARE = 0.4, 0.04
READ_PAUSE_S = 1.5
READ_S_MAX = 3.0
"""A reader that takes longer may miss a tombstone, as one may that goes on at the next leader."""


class TopicLife(Names):
    """The records of one life. It has one writer. Its keys name it, so that those of a former life are known."""

    def __init__(self, world: World, partition: Partition, topic_id: bytes, number: int) -> None:
        super().__init__(world, partition, topic_id)
        self.begun = world.seconds
        self._prefix = b"life %d, " % number
        self._deletions_in_doubt: Counter[bytes] = Counter()
        self._deleted_at: dict[bytes, int] = {}

    def key(self, name: str) -> bytes:
        return self._prefix + name.encode()

    @property
    def acknowledged_so_far(self) -> Entries:
        return dict(self._acknowledged)

    def asked(self, entries: list[Keyed]) -> None:
        """To be called before they are sent."""
        self._deletions_in_doubt.update(entry.key for entry in entries if entry.value is None)

    def acknowledged(self, offset: int, entry: Keyed) -> None:
        super().acknowledged(offset, entry)
        if entry.value is None:
            self._deletions_in_doubt[entry.key] -= 1
            self._deleted_at[entry.key] = offset

    def saw(self, entries: Entries) -> None:
        super().saw(entries)
        for offset, entry in entries.items():
            if not entry.key.startswith(self._prefix):
                self._violation(f"{entry} at {offset} is of a former topic of that name")

    def check(self, who: str, entries: Entries, acknowledged: Entries) -> None:
        """`entries`: all that it shows. `acknowledged`: what was so before it was read."""
        last = latest(entries)
        for offset, entry in acknowledged.items():
            if entry.value is not None and last.get(entry.key, -1) < offset and not self._may_be_deleted(entry.key, offset):
                self._violation(f"{who} does not show {entry} at {offset}, and of its key nothing later")
        for offset in revived(acknowledged, entries):
            self._violation(f"{who} shows {entries[offset]} at {offset} again, which was deleted")
        gone = [key for key, offset in self._deleted_at.items() if offset in acknowledged and key not in last]
        self.world.sometimes("a deleted key shows neither value nor tombstone", bool(gone))

    def _may_be_deleted(self, key: bytes, offset: int) -> bool:
        """Whether a tombstone may lie behind it. Then both may be gone."""
        return self._deletions_in_doubt[key] > 0 or self._deleted_at.get(key, -1) > offset


class KeysProducer(NamesProducer):
    """The writer of a life."""

    def __init__(self, client: Client, recorder: Recorder, life: TopicLife, values: Values) -> None:
        super().__init__(client, recorder, life, values)
        self._life = life

    @property
    def _is_burst(self) -> bool:
        return self._life.world.seconds < self._life.begun + BURST_S

    async def run(self, pause_s: float = PAUSE_S) -> None:
        """Works until it is stopped, and ends what it has begun."""
        while not self.stopping:
            await self.send(self._life.partition)
            await asyncio.sleep(self._random.expovariate(1 / (BURST_PAUSE_S if self._is_burst else pause_s)))

    def _next_entries(self, values: list[int]) -> list[Keyed]:
        entries = [self._next_entry(value) for value in values]
        self._life.asked(entries)
        return entries

    def _next_entry(self, value: int) -> Keyed:
        random, life = self._random, self._life
        if not self._is_burst and random.random() >= LATE_SHARE:
            return Keyed(life.key(f"filler {random.randrange(FILLERS)}"), b"%d" % value)
        return Keyed(life.key(f"key {random.randrange(KEYS)}"), None if random.random() < TOMBSTONES else b"%d" % value)


class TableReader(NamesReader):
    """Reads the whole table again and again, as an application does that starts."""

    def __init__(self, client: Client, life: TopicLife) -> None:
        super().__init__(client, life)
        self._life = life
        self.tables = 0

    async def run(self) -> None:
        """Reads until it is stopped."""
        while not self.stopping:
            await self.read_table()
            await asyncio.sleep(self._client.random.expovariate(1 / READ_PAUSE_S))

    async def read_table(self) -> bool:
        """Whether it read all that had been acknowledged, quickly and from one leader."""
        life, world = self._life, self._client.world
        acknowledged, begun = life.acknowledged_so_far, world.seconds
        entries: dict[int, Keyed] = {}
        position, leaders = 0, set[tuple[int, int] | None]()
        while position <= max(acknowledged, default=-1):
            found, position = await self.fetch(position)
            leaders.add(self._client.metadata.leaders.get(life.partition))
            life.saw(found)
            entries.update(found)
            if len(leaders) > 1 or world.seconds > begun + READ_S_MAX:
                return False
        life.check("a reader", entries, acknowledged)
        self.tables += 1
        return True
