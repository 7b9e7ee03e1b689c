"""What one pull is answered with: of each partition that has news, what its follower has not heard."""

from libs.commitlog.errors import LogDamaged, OffsetOutOfRange
from libs.commitlog.filesystem import OpenFile
from libs.commitlog.reading import Slice
from libs.rpc.contracts.replication import Pull
from libs.wire.errors import ErrorCode
from services.storage.core.fetch_rules import FetchBudget
from services.storage.core.pull_sessions import Key, Position, PullSession
from services.storage.hosted import Hosted
from services.storage.leader_throttle import LeaderThrottle

STORAGE_ERROR = int(ErrorCode.KAFKA_STORAGE_ERROR)
OFFSET_OUT_OF_RANGE = int(ErrorCode.OFFSET_OUT_OF_RANGE)
NOT_LEADER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
COPIED_BYTES_MAX = 64 << 10
FILES_MAX = 256
"""So many stay open until they are sent; thousands of partitions may have a record each."""


class PullAnswer:
    """`rows` are `Pulled`, in the field order of the contract. What they have inline is in `payload`, then in `files`, which are
    held open until they are sent."""

    def __init__(self, session: PullSession, request: Pull, throttle: LeaderThrottle, now: float) -> None:
        self.rows: list[list[object]] = []
        self.payload: list[bytes] = []
        self.files: list[tuple[OpenFile, int, int]] = []
        self._session = session
        self._request = request
        self._throttle = throttle
        self._now = now
        self.wait_s = 0.0
        """Until then there is no more for who is throttled."""
        self._budget = FetchBudget(min_bytes=0, max_bytes=request.max_bytes)

    @property
    def taken(self) -> int:
        return self._budget.taken

    def tell(self, key: Key, position: Position, hosted: Hosted | None) -> None:
        """`hosted` None: this node does not lead it. What does not fit stays among the news, in its place."""
        if hosted is None:
            self._told(key, position, position.error or NOT_LEADER)
            return
        piece: Slice | None = None
        if not position.error and position.divergence is None and position.fetch_offset < hosted.log_end_offset:
            limit = self._budget.limit(self._request.partition_max_bytes)
            if (not limit and self.taken) or len(self.files) == FILES_MAX:
                return
            throttled = self._throttle.applies(hosted, self._session.node_id)
            if throttled and (wait_s := self._throttle.gave(0, self._now)):
                self.wait_s = wait_s
                return
            piece = self._read(hosted, position, limit)
            if throttled and piece is not None:
                self._throttle.gave(piece.length, self._now)
        divergence = position.divergence
        known = (position.told_high_watermark, position.told_log_start) == (hosted.high_watermark, hosted.log_start_offset)
        if known and not position.error and divergence is None and piece is None:
            del self._session.news[key]
            return
        position.told_high_watermark, position.told_log_start = hosted.high_watermark, hosted.log_start_offset
        numbers = (hosted.leader_epoch, hosted.high_watermark, hosted.log_start_offset, hosted.log_end_offset)
        parting = (divergence.epoch, divergence.end_offset) if divergence is not None else (-1, -1)
        self._told(key, position, position.error, numbers, piece, parting)

    def _told(
        self,
        key: Key,
        position: Position,
        error: int,
        numbers: tuple[int, int, int, int] = (-1, -1, -1, -1),
        piece: Slice | None = None,
        parting: tuple[int, int] = (-1, -1),
    ) -> None:
        ranges, inline_length = [], 0
        if piece is not None and self._request.inline:
            inline_length = piece.length
        elif piece is not None:
            ranges = [(piece.file.file_id, piece.position, piece.length)]
        self.rows.append([*key, error, *numbers, ranges, inline_length, *parting])
        del self._session.news[key]
        position.muted = bool(error or piece is not None or parting != (-1, -1))

    def _enclose(self, piece: Slice) -> None:
        """As bytes while that is cheaper: for the system calls of a file range, several kilobytes are copied."""
        content = None
        if piece.length <= COPIED_BYTES_MAX and not self.files:
            content = piece.file.read_at_once(piece.length, piece.position)
        if content is not None:
            self.payload.append(content)
        else:
            self.files.append((piece.file.handle, piece.position, piece.length))

    def _read(self, hosted: Hosted, position: Position, limit: int) -> Slice | None:
        """To the log's end, not to the high watermark. A whole batch at least: it may pass `max_bytes`, and the last one only."""
        offset, end = position.fetch_offset, hosted.log_end_offset
        try:
            found = hosted.read(offset, limit, end, at_least_one_batch=True)
            if found is not None and self._request.inline:
                self._enclose(found)
        except OffsetOutOfRange:
            position.error = OFFSET_OUT_OF_RANGE
            return None
        except (LogDamaged, OSError) as failure:
            hosted.failed_reads.tell(hosted, failure, offset=offset)
            position.error = STORAGE_ERROR
            return None
        if found is not None:
            self._budget.take(found.length)
        return found
