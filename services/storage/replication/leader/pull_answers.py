"""The answer to one pull: for each partition with changes, the changes that its follower has not been sent."""

from collections.abc import Callable, Hashable

from libs.commitlog.files.filesystem import OpenFile
from libs.commitlog.files.page_cache import ColdRead, NonblockingLookup, NotInPageCache
from libs.commitlog.model.errors import LogDamaged, OffsetOutOfRange
from libs.commitlog.segments.reading import Slice
from libs.rpc.contracts.replication import Pull
from libs.wire.errors import ErrorCode
from services.storage.core.fetch.fetch_rules import FetchBudget
from services.storage.core.replication.leader.pull_sessions import Key, Position, PullSession
from services.storage.partition.partition import Partition
from services.storage.replication.leader.throttle import LeaderThrottle

KAFKA_STORAGE_ERROR = int(ErrorCode.KAFKA_STORAGE_ERROR)
OFFSET_OUT_OF_RANGE = int(ErrorCode.OFFSET_OUT_OF_RANGE)
NOT_LEADER_OR_FOLLOWER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
COPIED_BYTES_MAX = 64 << 10
FILES_MAX = 256
"""The limit of files that stay open until they are sent. Thousands of partitions may have a record each."""


class PullAnswer:
    """The answer to one pull. `rows` are `Pulled`, in the field order of the contract.

    Inline bytes are in `payload`, then in `files`, which are held open until they are sent. Nothing here waits for a disk.
    """

    def __init__(
        self,
        session: PullSession,
        request: Pull,
        throttle: LeaderThrottle,
        now: float,
        attempt: Callable[[Hashable], NonblockingLookup],
    ) -> None:
        """`attempt`: the lookup in which a read by that name makes its next attempt."""
        self.rows: list[list[object]] = []
        self.payload: list[bytes | bytearray] = []
        self.files: list[tuple[OpenFile, int, int]] = []
        self._session = session
        self._request = request
        self._throttle = throttle
        self._now = now
        self._attempt = attempt
        self.needed: list[tuple[Hashable, ColdRead]] = []
        """(name of the read, what it needs from the disk first). Those partitions stay pending."""
        self.wait_s = 0.0
        """Seconds until a throttled follower may get more."""
        self._budget = FetchBudget(min_bytes=0, max_bytes=request.max_bytes)

    @property
    def taken(self) -> int:
        return self._budget.taken

    def add(self, key: Key, position: Position, partition: Partition | None) -> None:
        """Adds a partition. `partition` None: this node does not lead it. One that does not fit stays pending, in its place."""
        if partition is None:
            self._add_row(key, position, position.error or NOT_LEADER_OR_FOLLOWER)
            return
        piece: Slice | None = None
        if not position.error and position.divergence is None and position.fetch_offset < partition.log_end_offset:
            limit = self._budget.limit(self._request.partition_max_bytes)
            if (not limit and self.taken) or len(self.files) == FILES_MAX:
                return
            throttled = self._throttle.applies(partition, self._session.node_id)
            if throttled and (wait_s := self._throttle.take(0, self._now)):
                self.wait_s = wait_s
                return
            try:
                piece = self._read(key, partition, position, limit)
            except NotInPageCache as miss:
                self.needed.append(((self._session, key), miss.read))
                return
            if throttled and piece is not None:
                self._throttle.take(piece.length, self._now)
        divergence = position.divergence
        known = (position.sent_high_watermark, position.sent_log_start) == (partition.high_watermark, partition.log_start_offset)
        if known and not position.error and divergence is None and piece is None:
            del self._session.pending[key]
            return
        position.sent_high_watermark, position.sent_log_start = partition.high_watermark, partition.log_start_offset
        numbers = (partition.leader_epoch, partition.high_watermark, partition.log_start_offset, partition.log_end_offset)
        diverging = (divergence.epoch, divergence.end_offset) if divergence is not None else (-1, -1)
        self._add_row(key, position, position.error, numbers, piece, diverging)

    def _add_row(
        self,
        key: Key,
        position: Position,
        error: int,
        numbers: tuple[int, int, int, int] = (-1, -1, -1, -1),
        piece: Slice | None = None,
        diverging: tuple[int, int] = (-1, -1),
    ) -> None:
        ranges, inline_length = [], 0
        if piece is not None and self._request.inline:
            inline_length = piece.length
        elif piece is not None:
            ranges = [(piece.file.file_id, piece.position, piece.length)]
        self.rows.append([*key, error, *numbers, ranges, inline_length, *diverging])
        del self._session.pending[key]
        position.muted = bool(error or piece is not None or diverging != (-1, -1))

    def _attach(self, piece: Slice) -> None:
        """Adds the bytes as a copy while that is cheaper: the system calls of a file range cost as much as some kilobytes."""
        if piece.length <= COPIED_BYTES_MAX and not self.files:
            self.payload.append(piece.file.read(piece.length, piece.position))
            return
        if not piece.file.is_cached(piece.position, piece.length):
            piece.file.read(piece.length, piece.position)  # into the page cache, so that the stream waits for no disk
        self.files.append((piece.file.handle, piece.position, piece.length))

    def _read(self, key: Key, partition: Partition, position: Position, limit: int) -> Slice | None:
        """Reads to the log's end, not to the high watermark. The last batch may exceed `max_bytes`, since at least one whole
        batch is read. Raises NotInPageCache."""
        offset, end = position.fetch_offset, partition.log_end_offset
        try:
            with self._attempt((self._session, key)):
                piece = partition.read(offset, limit, end, at_least_one_batch=True)
                if piece is not None and self._request.inline:
                    self._attach(piece)
        except OffsetOutOfRange:
            position.error = OFFSET_OUT_OF_RANGE
            return None
        except (LogDamaged, OSError) as failure:
            partition.failed_reads.report(partition, failure, offset=offset)
            position.error = KAFKA_STORAGE_ERROR
            return None
        if piece is not None:
            self._budget.take(piece.length)
        return piece
