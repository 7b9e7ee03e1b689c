"""How far consumers are behind: in records, and in seconds, which is the age of the oldest record that they have not read.

Leaders are asked by RPC, and only when somebody wants to know: where a partition begins and ends, at most once a second
(`FRESH_S`), and when the oldest unread record was written, once for each place. Nothing of this touches a shard.

A record's time is its own where its batch is small; else that of its batch's first record, a moment before.
"""

import asyncio
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from libs.clock import Clock
from libs.cluster.image import ClusterImage
from libs.rpc.client import RpcClient
from libs.rpc.contracts.storage import (
    FETCH,
    LIST_OFFSETS,
    Fetch,
    FetchPartition,
    FetchReply,
    ListedOffset,
    ListOffsets,
    ListOffsetsPartition,
    ListOffsetsReply,
)
from libs.rpc.errors import ContractError, RpcFailure
from libs.rpc.schema import pack, unpack
from libs.runtime.storage_nodes import StorageNodes
from libs.wire.batches import BatchError, BatchHeader
from libs.wire.errors import ErrorCode
from libs.wire.primitives import NO_UUID
from libs.wire.records import iter_records
from services.group_coordinator.core.records import OffsetCommitted

FRESH_S: Final = 1.0
ANSWER_S: Final = 3.0
LEADERS_AT_ONCE: Final = 4
PARTITIONS_AT_ONCE: Final = 500
"""In one question."""
READS_AT_ONCE: Final = 8
READS_MAX: Final = 1000
"""Of one question: of more partitions that are behind, the seconds are not told."""
RECORDS_LOOKED_AT_MAX: Final = 500
RECORDS_BYTES_MAX: Final = 1 << 20
"""Decompressed."""
TIMES_KEPT: Final = 10_000

LATEST, EARLIEST = -1, -2

_NO_LEADER = int(ErrorCode.LEADER_NOT_AVAILABLE)
_NO_TOPIC = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
_NO_ANSWER = int(ErrorCode.REQUEST_TIMED_OUT)

Place = tuple[bytes, int]
"""Topic id, partition."""


class Lag(NamedTuple):
    """Of one partition. With an `error`, Kafka's, nothing else is known."""

    error: int
    start: int = -1
    """Where the log begins."""
    end: int = -1
    """The high watermark."""
    records: int | None = None
    """Offsets from the committed one, or the log's start, to the end: compaction and transaction markers leave gaps."""
    seconds: float | None = None
    """0.0: all is read. None: not known."""


class _Ends(NamedTuple):
    error: int
    start: int = -1
    end: int = -1
    asked_at: float = 0.0


class _Place(NamedTuple):
    topic_id: bytes
    partition: int
    leader: int
    leader_epoch: int


class LagMeter:
    def __init__(self, image: Callable[[], ClusterImage], nodes: StorageNodes, clock: Clock) -> None:
        self._image = image
        self._nodes = nodes
        self._clock = clock
        self._ends: dict[Place, _Ends] = {}
        self._times: OrderedDict[tuple[bytes, int, int], int] = OrderedDict()
        """When the record at an offset was written: that does not change."""
        self._asking = asyncio.Semaphore(LEADERS_AT_ONCE)
        self._reading = asyncio.Semaphore(READS_AT_ONCE)

    async def of(self, offsets: Iterable[OffsetCommitted]) -> dict[tuple[str, int], Lag]:
        """By topic and partition. Raises nothing: what cannot be asked has an error."""
        found: dict[tuple[str, int], Lag] = {}
        places: dict[tuple[str, int], _Place] = {}
        committed = {(each.topic, each.partition): each for each in offsets}
        for key, each in committed.items():
            place = self._place(each)
            if isinstance(place, Lag):
                found[key] = place
            else:
                places[key] = place
        await self._learn_ends(places.values())
        unread: list[tuple[tuple[str, int], _Place, int]] = []
        for key, place in places.items():
            ends = self._ends.get((place.topic_id, place.partition), _Ends(_NO_ANSWER))
            if ends.error:
                found[key] = Lag(ends.error)
                continue
            first = max(committed[key].offset, ends.start)
            records = max(ends.end - first, 0)
            found[key] = Lag(0, ends.start, ends.end, records, None if records else 0.0)
            if records:
                unread.append((key, place, first))
        times = await asyncio.gather(*[self._time_at(place, offset) for _, place, offset in unread[:READS_MAX]])
        now_ms = self._clock.wall_ms()
        for (key, _, _), time_ms in zip(unread, times, strict=False):
            if time_ms is not None:
                found[key] = found[key]._replace(seconds=max(now_ms - time_ms, 0) / 1000)
        return found

    def _place(self, committed: OffsetCommitted) -> _Place | Lag:
        image = self._image()
        topic = image.topics.get(committed.topic)
        if topic is None or not 0 <= committed.partition < topic.partitions:
            return Lag(_NO_TOPIC)
        topic_id = bytes.fromhex(topic.topic_id)
        if committed.topic_id not in (NO_UUID, topic_id):
            return Lag(_NO_TOPIC)  # of a topic of that name which is gone
        state = image.partition(topic_id, committed.partition)
        if state is None or state.leader < 0:
            return Lag(_NO_LEADER)
        return _Place(topic_id, committed.partition, state.leader, state.leader_epoch)

    # -- where partitions begin and end -----------------------------------------------------------------------------------

    async def _learn_ends(self, places: Iterable[_Place]) -> None:
        now = asyncio.get_running_loop().time()
        self._ends = {key: ends for key, ends in self._ends.items() if now - ends.asked_at < FRESH_S}
        by_leader: dict[int, list[_Place]] = {}
        for place in places:
            if (place.topic_id, place.partition) not in self._ends:
                by_leader.setdefault(place.leader, []).append(place)
        portions = [
            (leader, asked[at : at + PARTITIONS_AT_ONCE])
            for leader, asked in by_leader.items()
            for at in range(0, len(asked), PARTITIONS_AT_ONCE)
        ]
        await asyncio.gather(*[self._ask_ends(leader, portion) for leader, portion in portions])

    async def _ask_ends(self, leader: int, places: Sequence[_Place]) -> None:
        async with self._asking:
            client = self._nodes.client(leader)
            answers = await _listed(client, places) if client is not None else None
        at = asyncio.get_running_loop().time()
        for index, place in enumerate(places):
            if answers is None:
                ends = _Ends(_NO_ANSWER, asked_at=at)
            else:
                start, end = answers[2 * index], answers[2 * index + 1]
                ends = _Ends(start.error or end.error, start.offset, end.offset, at)
            self._ends[place.topic_id, place.partition] = ends

    # -- when a record was written ----------------------------------------------------------------------------------------

    async def _time_at(self, place: _Place, offset: int) -> int | None:
        """Wall time in ms."""
        key = (place.topic_id, place.partition, offset)
        known = self._times.get(key)
        if known is not None:
            self._times.move_to_end(key)
            return known
        async with self._reading:
            client = self._nodes.client(place.leader)
            batch = await _first_batch(client, place, offset) if client is not None else None
        time_ms = _time_in(batch, offset) if batch is not None else None
        if time_ms is None or time_ms < 0:
            return None
        self._times[key] = time_ms
        if len(self._times) > TIMES_KEPT:
            self._times.popitem(last=False)
        return time_ms


async def _listed(client: RpcClient, places: Sequence[_Place]) -> Sequence[ListedOffset] | None:
    """For each of `places` its start and its end. None: no answer."""
    asked = [
        ListOffsetsPartition(place.topic_id, place.partition, timestamp, place.leader_epoch)
        for place in places
        for timestamp in (EARLIEST, LATEST)
    ]
    with suppress(RpcFailure, ContractError):
        response = await client.call(LIST_OFFSETS, pack(ListOffsets(0, tuple(asked))), timeout_s=ANSWER_S)
        found = unpack(ListOffsetsReply, response.body).partitions
        return found if len(found) == len(asked) else None
    return None


async def _first_batch(client: RpcClient, place: _Place, offset: int) -> memoryview | None:
    """That holds `offset`, or the next one that is there, with whatever follows."""
    wanted = FetchPartition(place.topic_id, place.partition, offset, 1, place.leader_epoch)
    with suppress(RpcFailure, ContractError, ValueError):
        response = await client.call(FETCH, pack(Fetch(0, 1, 1, 0, (wanted,), inline=True)), timeout_s=ANSWER_S)
        (found,) = unpack(FetchReply, response.body).partitions
        return memoryview(response.payload)[: found.inline_length] if not found.error and found.inline_length else None
    return None


def _time_in(batch: memoryview, offset: int) -> int | None:
    try:
        header = BatchHeader.at(batch)
    except struct.error:
        return None
    if header.is_log_append_time:
        return header.max_timestamp
    if offset > header.base_offset and header.record_count <= RECORDS_LOOKED_AT_MAX:
        with suppress(BatchError):
            for record in iter_records(batch, RECORDS_BYTES_MAX):
                if record.offset >= offset:
                    return record.timestamp
    return header.base_timestamp
