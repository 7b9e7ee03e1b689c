"""The fetch path: read, answer with file ranges, or park until bytes arrive, a partition moves, or the wait is over.

A parked fetch holds no bytes, only what it asked for; when it wakes it reads again from the start.
"""

import asyncio
from functools import partial

from libs.commitlog.filesystem import OpenFile
from libs.rpc.call import Call
from libs.rpc.contracts.storage import Fetch
from libs.rpc.errors import ContractError
from libs.rpc.schema import unpack
from libs.wire.errors import ErrorCode
from services.storage.core.admission import Refusal
from services.storage.core.parked_fetches import ParkedFetches
from services.storage.hosted import Hosted, Key
from services.storage.leader_checks import LeaderChecks
from services.storage.meters import Meters
from services.storage.near_readers import NearReaders
from services.storage.partitions import Partitions
from services.storage.reading import PartitionRead, Reading, read

INVALID_REQUEST = int(ErrorCode.INVALID_REQUEST)
STORAGE_ERROR = int(ErrorCode.KAFKA_STORAGE_ERROR)
OFFSET_OUT_OF_RANGE = int(ErrorCode.OFFSET_OUT_OF_RANGE)
INVALID_FETCH_SIZE = int(ErrorCode.INVALID_FETCH_SIZE)
INLINE_BYTES_MAX = 64 << 20
"""An inline answer is one frame; a gateway that shares no kernel with us asks for no more than it would forward."""


class PendingFetch:
    """One Fetch call that waits."""

    __slots__ = ("call", "request", "timer")

    def __init__(self, call: Call, request: Fetch) -> None:
        self.call = call
        self.request = request
        self.timer: asyncio.TimerHandle | None = None


class Fetches:
    """`accept` answers at once or parks; `wake` is told of every partition whose committed end, leader or existence changed."""

    def __init__(self, partitions: Partitions, meters: Meters, near: NearReaders, checks: LeaderChecks) -> None:
        self._partitions = partitions
        self._checks = checks
        self._near = near
        self._meters = meters
        self._loop = asyncio.get_running_loop()
        self._parked: ParkedFetches[Key, PendingFetch] = ParkedFetches()
        self._stopping = False

    @property
    def parked(self) -> int:
        return len(self._parked)

    def waiting_on(self, key: Key) -> bool:
        """Whether somebody waits for the partition's next bytes."""
        return self._parked.anyone_on(key)

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
        reading = self._read(request)
        if reading.complete or request.max_wait_ms <= 0 or self._stopping:
            self._answer(call, request, reading)
            return
        fetch = PendingFetch(call, request)
        fetch.timer = self._loop.call_later(request.max_wait_ms / 1000, self._time_out, fetch)
        keys = [(wanted.topic_id, wanted.partition) for wanted in request.partitions]
        self._parked.park(fetch, keys)
        for key in keys:
            hosted = self._partitions.by_key.get(key)
            if hosted is not None and hosted.log_end_offset > hosted.high_watermark:
                hosted.sync.hurry()
                hosted.sync.kick()
        call.on_cancel(partial(self._forget, fetch))

    def wake(self, key: Key) -> None:
        """Those who wait on the partition look again."""
        for fetch in self._parked.waiting_on(key):
            reading = self._read(fetch.request)
            if reading.complete:
                self._forget(fetch)
                self._answer(fetch.call, fetch.request, reading)

    def close(self) -> None:
        """The node stops: everyone gets what there is, and so does who comes now. Nothing more will arrive to wait for."""
        self._stopping = True
        for fetch in self._parked.everyone():
            self._time_out(fetch)

    def _read(self, request: Fetch) -> Reading:
        if request.rack:
            return read(request, self._near.shown if request.as_follower else self._partitions.serving, self._near.nearer)
        return read(request, self._partitions.serving)

    def _time_out(self, fetch: PendingFetch) -> None:
        self._forget(fetch)
        self._answer(fetch.call, fetch.request, self._read(fetch.request))

    def _forget(self, fetch: PendingFetch) -> None:
        self._parked.remove(fetch)
        if fetch.timer is not None:
            fetch.timer.cancel()
            fetch.timer = None

    def _answer(self, call: Call, request: Fetch, reading: Reading) -> None:
        failed = sum([result.error != 0 for result in reading.partitions])
        self._meters.fetch_requests += len(reading.partitions)
        self._meters.bytes_out += reading.taken
        self._meters.failed_fetches += failed
        if not (failed and self._ask_who_leads(call, request, reading)):
            self._reply(call, request, reading)

    def _ask_who_leads(self, call: Call, request: Fetch, reading: Reading) -> bool:
        """Of partitions that are read past their end: another leader's log may go on there. False: there are none."""
        beyond: list[tuple[Hosted, PartitionRead]] = []
        for wanted, result in zip(request.partitions, reading.partitions, strict=True):
            hosted = self._partitions.by_key.get((wanted.topic_id, wanted.partition))
            if result.error != OFFSET_OUT_OF_RANGE or hosted is None or not hosted.leading:
                continue
            if wanted.fetch_offset >= hosted.log_start_offset:  # who leads elsewhere begins no earlier
                beyond.append((hosted, result))
        unanswered = len(beyond)

        def answered(result: PartitionRead, refusal: Refusal | None) -> None:
            nonlocal unanswered
            unanswered -= 1
            if refusal is not None:
                result.error, result.leader, result.leader_epoch = refusal.error, refusal.leader, refusal.leader_epoch
            if not unanswered:
                self._reply(call, request, reading)

        for hosted, result in beyond:
            self._checks.ask(hosted, partial(answered, result))
        return bool(beyond)

    def _reply(self, call: Call, request: Fetch, reading: Reading) -> None:
        """As file ranges, or with the bytes behind the body when the caller shares no kernel with us."""
        inline = request.inline
        files = _opened(reading) if inline else []
        rows = [_fetched(result, inline=inline) for result in reading.partitions]
        if inline:
            call.reply([rows], files=[(handle.fd, position, length) for handle, position, length in files])
        else:
            call.reply([rows])


def _opened(reading: Reading) -> list[tuple[OpenFile, int, int]]:
    """The files of what is read, held open together: any of them may close when another opens. One that cannot be opened (it has
    just left the log, or there is no descriptor) is an error of its partition."""
    files = []
    for result in reading.partitions:
        if result.slice is not None:
            try:
                files.append((result.slice.file.handle, result.slice.position, result.slice.length))
            except OSError:
                result.slice, result.error = None, STORAGE_ERROR
    return files


def _fetched(result: PartitionRead, *, inline: bool) -> list[object]:
    """A `Fetched`, in the field order of the contract."""
    ranges: list[tuple[int, int, int]] = []
    length = 0
    readable_to = -1
    found = result.slice
    if found is not None and inline:
        length = found.length
    elif found is not None:
        ranges = [(found.file.file_id, found.position, found.length)]
        readable_to = found.readable_to
    divergence = result.divergence
    return [
        result.error,
        result.high_watermark,
        result.last_stable_offset,
        result.log_start_offset,
        ranges,
        length,
        result.aborted,
        divergence.epoch if divergence is not None else -1,
        divergence.end_offset if divergence is not None else -1,
        result.leader,
        result.leader_epoch,
        readable_to,
        result.preferred_read_replica,
    ]
