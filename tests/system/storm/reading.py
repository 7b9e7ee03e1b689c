"""A member's work on its partitions: fetch, count, commit."""

import asyncio
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.messages import offset_commit, offset_fetch
from libs.wire.record_batches.batches import iter_batches
from libs.wire.record_batches.records import iter_records
from tests.gateway.kafka_client import fetch_body, read_fetched
from tests.system.storm.ledger import Ledger
from tests.system.storm.wire import Connection

FETCH_VERSION, COMMIT_VERSION, OFFSET_FETCH_VERSION = 12, 9, 9
FETCH_WAIT_MS = 250
COMMIT_EVERY_S = 0.5
RETRY_S = 0.05
FENCED = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.FENCED_INSTANCE_ID,
}


class Fenced(Exception):
    """The group goes on without this member."""


@dataclass(frozen=True)
class Scene:
    """The objects that all members of one group share."""

    group: str
    topic: str
    partitions: int
    ports: tuple[int, ...]
    """Of the one broker that leads all partitions, at each gateway."""
    ledger: Ledger
    chance: random.Random
    session_ms: int
    rebalance_ms: int
    heartbeat_s: float

    def connection(self, client_id: str) -> Connection:
        return Connection(self.ports, self.chance, client_id)


class Reading:
    """`identity` says member id and generation or epoch, as they are now."""

    def __init__(self, scene: Scene, name: str, identity: Callable[[], tuple[str, int]]) -> None:
        self._scene, self._name, self._identity = scene, name, identity
        self._fetches, self._offsets = scene.connection(name), scene.connection(name)
        self._positions: dict[int, int] = {}
        self._unread: set[int] = set()
        """Owned, and nobody has said yet where to begin."""
        self._committed: dict[int, int] = {}
        self._changed = asyncio.Event()

    @property
    def owned(self) -> set[int]:
        return self._positions.keys() | self._unread

    def take(self, partitions: Iterable[int], epoch: int) -> None:
        now = time.monotonic()
        for partition in partitions:
            self._scene.ledger.take(self._name, partition, epoch, now)
            self._unread.add(partition)
        self._changed.set()

    async def let_go(self, partitions: set[int]) -> None:
        """Commits what it has read of them, and ceases to own them. Raises Fenced."""
        offsets = {partition: self._positions.pop(partition) for partition in partitions & self._positions.keys()}
        self._unread -= partitions
        await self._commit(offsets)
        for partition in partitions:
            self._scene.ledger.release(self._name, partition)

    def lose(self, how: str) -> None:
        self._positions.clear()
        self._unread.clear()
        self._committed.clear()
        self._scene.ledger.lose(self._name, how)

    def cut(self) -> None:
        self._fetches.cut()
        self._offsets.cut()

    async def work(self) -> None:
        """Reads until cancelled. The other half of the member handles being fenced."""
        due = time.monotonic() + COMMIT_EVERY_S
        while True:
            if not self.owned:
                self._changed.clear()
                await self._changed.wait()
            try:
                if self._unread:
                    await self._find_positions()
                if self._positions:
                    await self._fetch()
                if time.monotonic() >= due:
                    due = time.monotonic() + COMMIT_EVERY_S
                    await self._commit({p: at for p, at in self._positions.items() if self._committed.get(p) != at})
            except Fenced:
                await asyncio.sleep(RETRY_S)

    async def _find_positions(self) -> None:
        scene, wanted = self._scene, sorted(self._unread)
        member, epoch = self._identity()
        request = offset_fetch.OffsetFetchRequest()
        topic = offset_fetch.OffsetFetchRequestTopics(name=scene.topic, partition_indexes=wanted)
        # The classic protocol has no members here.
        of_member = (member, epoch) if epoch > 0 and self.asks_as_member else (None, -1)
        request.groups = [offset_fetch.OffsetFetchRequestGroup(scene.group, *of_member, [topic])]
        answer = await self._offsets.ask(ApiKey.OFFSET_FETCH, OFFSET_FETCH_VERSION, request)
        [group] = answer.groups
        if group.error_code:
            await self._refused(group.error_code)
            return
        for found in group.topics[0].partitions:
            assert found.error_code == 0, found
            if found.partition_index in self._unread and scene.ledger.owns(self._name, found.partition_index):
                position = max(found.committed_offset, 0)
                self._unread.discard(found.partition_index)
                self._positions[found.partition_index] = self._committed[found.partition_index] = position
                scene.ledger.begin(self._name, found.partition_index, position)
            else:
                self._unread.discard(found.partition_index)

    asks_as_member = False

    async def _refused(self, error: int) -> None:
        if error in FENCED:
            raise Fenced
        assert error in RETRIABLE_ERRORS, f"{self._name}: {ErrorCode(error).name}"
        await asyncio.sleep(RETRY_S)

    async def _fetch(self) -> None:
        scene, asked = self._scene, dict(self._positions)
        body = fetch_body(FETCH_VERSION, [(scene.topic, sorted(asked.items()))], max_wait_ms=FETCH_WAIT_MS)
        answer = await self._fetches.ask_raw(ApiKey.FETCH, FETCH_VERSION, body)
        error, fetched, _ = read_fetched(answer, FETCH_VERSION)
        assert not error, ErrorCode(error).name
        for found in fetched:
            if found.error:
                assert found.error in RETRIABLE_FETCH_ERRORS, ErrorCode(found.error).name
                await asyncio.sleep(RETRY_S)
            elif self._positions.get(found.index) == asked[found.index]:
                self._count(found.index, asked[found.index], found.records)

    def _count(self, partition: int, position: int, data: bytes) -> None:
        """Each record says its offset: the log has one writer, who counts along."""
        records = [record for batch in iter_batches(data) for record in iter_records(batch.view) if record.offset >= position]
        if not records:
            return
        offsets = [record.offset for record in records]
        assert offsets == list(range(offsets[0], offsets[-1] + 1)), offsets
        assert [int(record.value or b"-1") for record in records] == offsets
        self._scene.ledger.deliver(self._name, partition, offsets[0], offsets[-1])
        self._positions[partition] = offsets[-1] + 1

    async def _commit(self, offsets: dict[int, int]) -> None:
        scene = self._scene
        while offsets:
            member, epoch = self._identity()
            partitions = [offset_commit.OffsetCommitRequestPartition(index, at) for index, at in sorted(offsets.items())]
            topic = offset_commit.OffsetCommitRequestTopic(name=scene.topic, partitions=partitions)
            request = offset_commit.OffsetCommitRequest(scene.group, epoch, member, topics=[topic])
            scene.ledger.commits(offsets)
            asked_at = time.monotonic()
            answer = await self._offsets.ask(ApiKey.OFFSET_COMMIT, COMMIT_VERSION, request)
            errors = {found.error_code for topic in answer.topics for found in topic.partitions}
            if errors == {0}:
                scene.ledger.alive(self._name, asked_at)
                scene.ledger.acknowledged(self._name, offsets)
                self._committed |= offsets
                return
            assert len(errors) == 1, errors
            await self._refused(errors.pop())
            offsets = {partition: at for partition, at in offsets.items() if scene.ledger.owns(self._name, partition)}


RETRIABLE_ERRORS = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.REQUEST_TIMED_OUT,
}
RETRIABLE_FETCH_ERRORS = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
