"""The lag of consumers, in records and in seconds. The seconds are the age of the oldest record that they have not read.

Leaders are asked by RPC, and only if somebody wants to know. Log starts and ends are read at most once a second (`FRESH_S`), and
the time of an unread record once per offset. Shards are not involved.

A record's time is its own if it stands near the beginning of its batch. Otherwise it is that of the batch's first record,
slightly earlier. Producers choose how large a batch is, so only its first bytes are asked for, and few records of it are looked
at.
"""

import asyncio
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from libs.clock import Clock
from libs.cluster.image import ClusterImage
from libs.cluster.topic_names import TRANSACTION_TOPIC
from libs.rpc.client.rpc_client import RpcClient
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
from libs.rpc.messages.errors import ContractError, RpcFailure
from libs.rpc.messages.schema import pack, unpack
from libs.runtime.storage_nodes import StorageNodes
from libs.wire.errors import ErrorCode
from libs.wire.primitives import NO_UUID
from libs.wire.record_batches.batches import BatchHeader
from libs.wire.record_batches.timestamp_walk import TimestampWalk, walk_batch
from services.group_coordinator.core.model.records import OffsetCommitted

FRESH_S: Final = 1.0
ANSWER_S: Final = 3.0
LEADERS_AT_ONCE: Final = 4
PARTITIONS_AT_ONCE: Final = 500
"""Partitions in one request."""
READS_AT_ONCE: Final = 8
READS_MAX: Final = 1000
"""Reads of record times per measurement. Further partitions with a lag get no seconds."""
RECORDS_LOOKED_AT_MAX: Final = 500
RECORDS_BYTES_MAX: Final = 64 << 10
"""The bytes of a batch that are asked for, and those that are decompressed of it: at most 300 µs of the loop."""
TIMES_KEPT: Final = 10_000

LATEST, EARLIEST = -1, -2
_ANY_TIME: Final = -(1 << 63)

LEADER_NOT_AVAILABLE = int(ErrorCode.LEADER_NOT_AVAILABLE)
UNKNOWN_TOPIC_OR_PARTITION = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
REQUEST_TIMED_OUT = int(ErrorCode.REQUEST_TIMED_OUT)

Place = tuple[bytes, int]
"""Topic id, partition."""


class Lag(NamedTuple):
    """The lag of one partition. With an `error` of Kafka's, nothing else is known."""

    error: int
    start: int = -1
    """The log start offset."""
    end: int = -1
    """The high watermark."""
    records: int | None = None
    """Offsets from the committed one, or from the log start, to the end. Compaction and transaction markers leave
    gaps in them."""
    seconds: float | None = None
    """0.0 if all is read. None if unknown."""


class _Ends(NamedTuple):
    error: int
    start: int = -1
    end: int = -1
    fetched_at: float = 0.0


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
        """The time of the record at an offset, which never changes."""
        self._list_slots = asyncio.Semaphore(LEADERS_AT_ONCE)
        self._read_slots = asyncio.Semaphore(READS_AT_ONCE)

    async def of(self, offsets: Iterable[OffsetCommitted]) -> dict[tuple[str, int], Lag]:
        """The lags by topic and partition. Raises nothing: a partition that cannot be measured has an error."""
        lags: dict[tuple[str, int], Lag] = {}
        places: dict[tuple[str, int], _Place] = {}
        committed = {(each.topic, each.partition): each for each in offsets}
        for key, each in committed.items():
            place = self._place(each)
            if isinstance(place, Lag):
                lags[key] = place
            else:
                places[key] = place
        await self._refresh_ends(places.values())
        unread: list[tuple[tuple[str, int], _Place, int]] = []
        for key, place in places.items():
            ends = self._ends.get((place.topic_id, place.partition), _Ends(REQUEST_TIMED_OUT))
            if ends.error:
                lags[key] = Lag(ends.error)
                continue
            first = max(committed[key].offset, ends.start)
            records = max(ends.end - first, 0)
            lags[key] = Lag(0, ends.start, ends.end, records, None if records else 0.0)
            if records and key[0] != TRANSACTION_TOPIC:  # whose records a storage node keeps from group coordinators
                unread.append((key, place, first))
        times = await asyncio.gather(*[self._time_at(place, offset) for _, place, offset in unread[:READS_MAX]])
        now_ms = self._clock.wall_ms()
        for (key, _, _), time_ms in zip(unread, times, strict=False):
            if time_ms is not None:
                lags[key] = lags[key]._replace(seconds=max(now_ms - time_ms, 0) / 1000)
        return lags

    def _place(self, committed: OffsetCommitted) -> _Place | Lag:
        image = self._image()
        topic = image.topics.get(committed.topic)
        if topic is None or not 0 <= committed.partition < topic.partitions:
            return Lag(UNKNOWN_TOPIC_OR_PARTITION)
        topic_id = bytes.fromhex(topic.topic_id)
        if committed.topic_id not in (NO_UUID, topic_id):
            return Lag(UNKNOWN_TOPIC_OR_PARTITION)  # it belongs to a deleted topic of that name
        state = image.partition(topic_id, committed.partition)
        if state is None or state.leader < 0:
            return Lag(LEADER_NOT_AVAILABLE)
        return _Place(topic_id, committed.partition, state.leader, state.leader_epoch)

    # -- where partitions begin and end -----------------------------------------------------------------------------------

    async def _refresh_ends(self, places: Iterable[_Place]) -> None:
        now = asyncio.get_running_loop().time()
        self._ends = {key: ends for key, ends in self._ends.items() if now - ends.fetched_at < FRESH_S}
        by_leader: dict[int, list[_Place]] = {}
        for place in places:
            if (place.topic_id, place.partition) not in self._ends:
                by_leader.setdefault(place.leader, []).append(place)
        portions = [
            (leader, requested[at : at + PARTITIONS_AT_ONCE])
            for leader, requested in by_leader.items()
            for at in range(0, len(requested), PARTITIONS_AT_ONCE)
        ]
        await asyncio.gather(*[self._fetch_ends(leader, portion) for leader, portion in portions])

    async def _fetch_ends(self, leader: int, places: Sequence[_Place]) -> None:
        async with self._list_slots:
            client = self._nodes.client(leader)
            answers = await _listed(client, places) if client is not None else None
        at = asyncio.get_running_loop().time()
        for index, place in enumerate(places):
            if answers is None:
                ends = _Ends(REQUEST_TIMED_OUT, fetched_at=at)
            else:
                start, end = answers[2 * index], answers[2 * index + 1]
                ends = _Ends(start.error or end.error, start.offset, end.offset, at)
            self._ends[place.topic_id, place.partition] = ends

    # -- when a record was written ----------------------------------------------------------------------------------------

    async def _time_at(self, place: _Place, offset: int) -> int | None:
        """The wall time in ms of the record at `offset`, or None."""
        key = (place.topic_id, place.partition, offset)
        known = self._times.get(key)
        if known is not None:
            self._times.move_to_end(key)
            return known
        async with self._read_slots:
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
    """The start and the end of each partition; None without an answer."""
    requested = [
        ListOffsetsPartition(place.topic_id, place.partition, timestamp, place.leader_epoch)
        for place in places
        for timestamp in (EARLIEST, LATEST)
    ]
    with suppress(RpcFailure, ContractError):
        response = await client.call(LIST_OFFSETS, pack(ListOffsets(0, tuple(requested))), timeout_s=ANSWER_S)
        listed = unpack(ListOffsetsReply, response.body).partitions
        return listed if len(listed) == len(requested) else None
    return None


async def _first_batch(client: RpcClient, place: _Place, offset: int) -> memoryview | None:
    """The beginning of the batch with `offset`, or of the next existing one."""
    partition = FetchPartition(place.topic_id, place.partition, offset, 1, place.leader_epoch)
    wanted = Fetch(0, 1, 1, 0, (partition,), inline=True, first_bytes=RECORDS_BYTES_MAX)
    with suppress(RpcFailure, ContractError, ValueError):
        response = await client.call(FETCH, pack(wanted), timeout_s=ANSWER_S)
        (fetched,) = unpack(FetchReply, response.body).partitions
        return memoryview(response.payload)[: fetched.inline_length] if not fetched.error and fetched.inline_length else None
    return None


def _time_in(batch: memoryview, offset: int) -> int | None:
    try:
        header = BatchHeader.at(batch)
    except struct.error:
        return None
    if header.is_log_append_time:
        return header.max_timestamp
    if offset > header.base_offset:
        found = walk_batch(TimestampWalk(batch, _ANY_TIME, offset, RECORDS_BYTES_MAX, RECORDS_LOOKED_AT_MAX))
        if found.is_exact and found.offset >= 0:
            return found.timestamp
    return header.base_timestamp
