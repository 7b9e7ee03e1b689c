"""The fetch path: read, answer with file ranges, or park until bytes arrive, a partition changes, or the wait is over.

A parked fetch holds no bytes, only its request. When it wakes, it reads again from the start. A partition whose log must be
looked up on the disk counts as one without bytes, until a thread of that disk has read what the lookup needs.
"""

import asyncio
from functools import partial

from libs.commitlog.segments.reading import Slice
from libs.rpc.contracts.storage import Fetch
from libs.rpc.messages.errors import ContractError
from libs.rpc.messages.schema import unpack
from libs.rpc.server.call import Call
from libs.wire.errors import ErrorCode
from services.storage.core.fetch.parked_fetches import ParkedFetches
from services.storage.core.produce.admission import Refusal
from services.storage.disks.disk_reads import DiskReads, TooManyReads
from services.storage.fetch.accepted_fetch import AcceptedFetch
from services.storage.fetch.fetch_traces import FetchTraces
from services.storage.fetch.preferred_read_replicas import PreferredReadReplicas
from services.storage.fetch.reading import READ_COMMITTED, Lookup, PartitionRead, Reading, read, read_name
from services.storage.partition.coordinator_topics import COORDINATORS, require_readable
from services.storage.partition.leader_checks import LeaderChecks
from services.storage.partition.partition import Key, Partition
from services.storage.partition.partition_table import PartitionTable
from services.storage.storage_meters import StorageMeters

INVALID_REQUEST = int(ErrorCode.INVALID_REQUEST)
KAFKA_STORAGE_ERROR = int(ErrorCode.KAFKA_STORAGE_ERROR)
OFFSET_OUT_OF_RANGE = int(ErrorCode.OFFSET_OUT_OF_RANGE)
INVALID_FETCH_SIZE = int(ErrorCode.INVALID_FETCH_SIZE)
INLINE_BYTES_MAX = 64 << 20
"""The limit of an inline answer, which is one frame. Gateways without a shared kernel ask for no more than they forward."""
DISK_WAIT_S = 5.0
"""The time that a fetch grants a disk, if it gets no bytes from another: less than gateways wait for an answer."""


class Fetches:
    """The fetches. `accept` answers at once or parks. `wake` is called when a partition's high watermark, leader or existence
    changed."""

    def __init__(
        self,
        partitions: PartitionTable,
        meters: StorageMeters,
        read_replicas: PreferredReadReplicas,
        checks: LeaderChecks,
        disk_reads: DiskReads,
        traces: FetchTraces,
    ) -> None:
        self._traces = traces
        self._partitions = partitions
        self._disk_reads = disk_reads
        self._checks = checks
        self._read_replicas = read_replicas
        self._meters = meters
        self._loop = asyncio.get_running_loop()
        self._parked: ParkedFetches[Key, AcceptedFetch] = ParkedFetches()
        self._stopping = False

    @property
    def parked(self) -> int:
        return len(self._parked)

    def waiting_on(self, key: Key) -> bool:
        """Whether a fetch waits for the partition's next bytes."""
        return self._parked.is_awaited(key)

    def accept(self, call: Call) -> None:
        try:
            request = unpack(Fetch, call.body)
        except ContractError as error:
            call.fail(INVALID_REQUEST, str(error))
            return
        if request.replica_id >= 0:
            call.fail(INVALID_REQUEST, "followers cannot fetch yet")
            return
        if request.inline and request.max_bytes > INLINE_BYTES_MAX:
            call.fail(INVALID_FETCH_SIZE, f"an inline fetch asks for at most {INLINE_BYTES_MAX} bytes")
            return
        keys = [(wanted.topic_id, wanted.partition) for wanted in request.partitions]
        if call.peer.role in COORDINATORS:
            require_readable(call.peer, call.method, self._partitions, keys)
        reading = self._read(request)
        wait_s = _wait_s(request, reading)
        fetch = AcceptedFetch(call, request, self._loop.time())
        if wait_s <= 0 or self._stopping:
            self._answer(fetch, reading)
            return
        fetch.parked = True
        if _waits_for_disk(reading):
            fetch.disk_at = fetch.looked_up_at
        self._wait_until(fetch, fetch.looked_up_at + wait_s)
        self._parked.park(fetch, keys)
        for key in keys:
            partition = self._partitions.by_key.get(key)
            if partition is not None and partition.log_end_offset > partition.high_watermark:
                partition.sync.mark_urgent()
                partition.sync.start_round()
        call.on_cancel(partial(self._forget, fetch))

    def wake(self, key: Key) -> None:
        """Reads again for the fetches that wait on the partition."""
        for fetch in self._parked.waiting_on(key):
            self._go_on(fetch)

    def close(self) -> None:
        """Answers all fetches with what there is, since the node stops. Later ones do not wait."""
        self._stopping = True
        for fetch in self._parked.all():
            self._go_on(fetch)

    def _read(self, request: Fetch) -> Reading:
        serving: Lookup = self._partitions.serving
        if request.rack:
            lookup = self._read_replicas.readable if request.as_follower else serving
            reading = read(request, lookup, self._disk_reads.attempt, self._read_replicas.select)
        else:
            reading = read(request, serving, self._disk_reads.attempt)
        for wanted, result in zip(request.partitions, reading.partitions, strict=True):
            if result.needed is not None:
                name = read_name(wanted, committed=request.isolation == READ_COMMITTED)
                try:
                    self._disk_reads.missed(name, result.needed, partial(self.wake, (wanted.topic_id, wanted.partition)))
                except TooManyReads:
                    result.needed, result.error, reading.complete = None, KAFKA_STORAGE_ERROR, True
        return reading

    def _go_on(self, fetch: AcceptedFetch) -> None:
        """Reads again for a parked fetch. Answers it, or lets it wait for the rest of its time."""
        reading, now = self._read(fetch.request), self._loop.time()
        if not fetch.disk_at and _waits_for_disk(reading):
            fetch.disk_at = now
        ends_at = fetch.looked_up_at + _wait_s(fetch.request, reading)
        if ends_at > now and not self._stopping:
            self._wait_until(fetch, ends_at)
            return
        self._forget(fetch)
        self._answer(fetch, reading)

    def _wait_until(self, fetch: AcceptedFetch, ends_at: float) -> None:
        if fetch.timer is not None:
            if fetch.timer.when() == ends_at:
                return
            fetch.timer.cancel()
        fetch.timer = self._loop.call_at(ends_at, self._time_out, fetch)

    def _time_out(self, fetch: AcceptedFetch) -> None:
        fetch.timer = None
        self._go_on(fetch)

    def _forget(self, fetch: AcceptedFetch) -> None:
        self._parked.remove(fetch)
        if fetch.timer is not None:
            fetch.timer.cancel()
            fetch.timer = None

    def _answer(self, fetch: AcceptedFetch, reading: Reading) -> None:
        failed = False
        if _waits_for_disk(reading):  # it took too long, or the node stops: an empty answer would tell of an empty log
            for result in reading.partitions:
                if result.needed is not None:
                    result.error = KAFKA_STORAGE_ERROR
        for index, result in enumerate(reading.partitions):
            if result.error:
                failed = True
                wanted = fetch.request.partitions[index]
                self._partitions.traffic_of((wanted.topic_id, wanted.partition)).failed_fetches += 1
            elif result.slice is not None:
                assert result.traffic is not None
                result.traffic.bytes_out += result.slice.length
        self._meters.fetch_requests += len(reading.partitions)
        fetch.failed = failed
        if not (failed and self._check_leadership(fetch, reading)):
            self._reply(fetch, reading)

    def _check_leadership(self, fetch: AcceptedFetch, reading: Reading) -> bool:
        """Checks leadership for partitions that are read past their end: another leader's log may go on there. False: there are
        none."""
        beyond: list[tuple[Partition, PartitionRead]] = []
        for wanted, result in zip(fetch.request.partitions, reading.partitions, strict=True):
            partition = self._partitions.by_key.get((wanted.topic_id, wanted.partition))
            if result.error != OFFSET_OUT_OF_RANGE or partition is None or not partition.leading:
                continue
            if wanted.fetch_offset >= partition.log_start_offset:  # another leader's log begins no earlier
                beyond.append((partition, result))
        unanswered = len(beyond)

        def answered(result: PartitionRead, refusal: Refusal | None) -> None:
            nonlocal unanswered
            unanswered -= 1
            if refusal is not None:
                result.error, result.leader, result.leader_epoch = refusal.error, refusal.leader, refusal.leader_epoch
            if not unanswered:
                self._reply(fetch, reading)

        for partition, result in beyond:
            self._checks.check(partition, partial(answered, result))
        return bool(beyond)

    def _reply(self, fetch: AcceptedFetch, reading: Reading) -> None:
        """Answers with file ranges, or with bytes behind the body if the caller shares no kernel with us."""
        call, request, now = fetch.call, fetch.request, self._loop.time()
        waited_s = fetch.waited_s(now)
        took_s = now - call.received_at - waited_s
        if call.trace is not None or took_s > self._traces.slow_s or fetch.failed:
            self._traces.answered(fetch, reading, now, took_s)
        body: list[object] = [[_row(result, request) for result in reading.partitions]]
        if waited_s:
            body.append(int(waited_s * 1000))
        files = [
            (result.handle.fd, result.slice.position, _inline_length(result.slice, request))
            for result in reading.partitions
            if result.slice is not None and result.handle is not None
        ]
        if files:
            call.reply_in_any_order(body, files)
        else:
            call.reply(body)


def _wait_s(request: Fetch, reading: Reading) -> float:
    """The wait of a fetch from its beginning, in seconds, if it stays at this reading: its client's, or longer for a disk."""
    if reading.complete:
        return 0.0
    wait_s = request.max_wait_ms / 1000
    return max(wait_s, DISK_WAIT_S) if _waits_for_disk(reading) else wait_s


def _waits_for_disk(reading: Reading) -> bool:
    """Whether there is nothing to answer yet but what a disk has been asked for."""
    return not (reading.complete or reading.taken) and any(result.needed is not None for result in reading.partitions)


def _inline_length(piece: Slice, request: Fetch) -> int:
    return min(piece.length, request.first_bytes) if request.first_bytes else piece.length


def _row(result: PartitionRead, request: Fetch) -> list[object]:
    """A `Fetched`, in the field order of the contract."""
    ranges: list[tuple[int, int, int]] = []
    length = 0
    readable_to = -1
    piece, aborted = result.slice, result.aborted
    inline = request.inline
    if piece is not None and inline:
        length = _inline_length(piece, request)
    elif piece is not None:
        ranges = [(piece.file.file_id, piece.position, piece.length)]
        readable_to = piece.readable_to if aborted is None else aborted.readable_to
    divergence = result.divergence
    return [
        result.error,
        result.high_watermark,
        result.last_stable_offset,
        result.log_start_offset,
        ranges,
        length,
        aborted.here if aborted is not None else (),
        divergence.epoch if divergence is not None else -1,
        divergence.end_offset if divergence is not None else -1,
        result.leader,
        result.leader_epoch,
        readable_to,
        result.preferred_read_replica,
        aborted.ahead if aborted is not None and not inline else (),
    ]
