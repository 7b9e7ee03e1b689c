"""The application of a leader's answer: its batches are appended and its high watermark is taken, or a truncation begins.

Order of effects, per partition and in the order of arrival: batches checked → producers and log take them → high watermark →
readers see it → log start. Sync rounds follow, and their ends are reported to the leader. Between pieces other work gets its
turn, and the partition's state is checked again.
"""

import asyncio
import logging
from collections.abc import Callable, Generator, Iterator, Sequence

from libs.commitlog.model.errors import LogWriteError
from libs.commitlog.partition_log.replicated_batches import (
    FarAhead,
    NotReplicable,
    StartsBefore,
    read_replicated,
    record_producers,
)
from libs.rpc.contracts.replication import Pulled
from libs.rpc.contracts.storage import FileRange
from libs.telemetry.logs import fields
from services.storage.core.replication.follower.following import (
    Append,
    Decision,
    Drop,
    Event,
    Operation,
    Retry,
    Skip,
    State,
    Truncate,
    TruncateFully,
    begins_within,
    decide,
)
from services.storage.core.replication.follower.pulling import PullSession
from services.storage.partition.partition import Key, Partition
from services.storage.partition.sync_scheduler import SyncScheduler
from services.storage.replication.follower.followed_partition import FollowedPartition
from services.storage.replication.follower.log_starts import FollowedLogStarts
from services.storage.replication.follower.throttle import FollowerThrottle

log = logging.getLogger("replication")

PIECE_BYTES, PIECE_BATCHES = 1 << 20, 500
"""The piece that is appended at once, about two milliseconds of work. The first limit counts."""


class Applying:
    """The application of answers for all fetchers. `operate` starts truncations."""

    def __init__(
        self,
        operate: Callable[[FollowedPartition, Operation], None],
        starts: FollowedLogStarts,
        on_copied: Callable[[int, int], None],
        throttle: FollowerThrottle,
    ) -> None:
        self._operate = operate
        self._starts = starts
        self._on_copied = on_copied
        self._throttle = throttle
        self._loop = asyncio.get_running_loop()

    def steps(
        self,
        answers: Sequence[tuple[Pulled, memoryview]],
        session: PullSession,
        sequence: int,
        followed_by_key: dict[Key, FollowedPartition],
        backing_off: dict[Key, FollowedPartition],
        read: Callable[[Sequence[FileRange]], memoryview | None],
    ) -> Generator[None, None, None]:
        """Applies answers, a piece at each step; closing the generator leaves the rest out. Partitions that back off go to
        `backing_off`.

        `sequence` is that of the answered pull. `read` gives the bytes of file ranges; None: the pull must be repeated.
        """
        dirty: dict[SyncScheduler[Partition], None] = {}
        try:
            for answer, view in answers:
                key = answer.topic_id, answer.partition
                followed, reported = followed_by_key.get(key), session.reported(key, sequence)
                if followed is None or reported is None or not followed.fetching:
                    continue  # the partition left, or this node leads it by now (KAFKA-13207)
                if (reported.leader_epoch, reported.fetch_offset) != (followed.leader_epoch, followed.position):
                    session.name_again(key)
                    continue
                if answer.ranges:
                    content = read(answer.ranges)
                    if content is None:
                        session.name_again(key)
                        continue
                    view = content
                try:
                    yield from self._apply(answer, view, followed, dirty)
                except Exception:
                    # A bug of ours. Other partitions are not affected.
                    log.exception("a leader's answer was not applied", extra=fields(partition=followed.partition))
                    if followed.fetching:
                        followed.back_off(self._loop.time())
                if followed.state is State.BACKING_OFF:
                    backing_off[key] = followed
                if followed.fetching and (view or answer.error):
                    session.name_again(key)
                else:
                    session.name(key)
                yield
        finally:
            for sync in dirty:
                sync.start_round()

    def _apply(
        self, answer: Pulled, view: memoryview, followed: FollowedPartition, dirty: dict[SyncScheduler[Partition], None]
    ) -> Iterator[None]:
        partition = followed.partition
        if partition.offline:
            followed.happened(Event.FAILED)
            return
        if partition.sync.stalled and view:
            followed.back_off(self._loop.time())
            return
        decision = decide(answer, followed.local_log())
        if isinstance(decision, Append):
            problem = yield from self._append(view, followed, dirty, answer.log_start_offset)
            if problem is None:
                if followed.fetching:
                    self._update_replica(answer, followed)
                    if wait_s := self._throttle.copied(followed, len(view), self._loop.time()):
                        followed.throttle_until(self._loop.time() + wait_s)
                return
            decision = problem
        self._do(decision, answer, followed)

    def _do(self, decision: Decision, answer: Pulled, followed: FollowedPartition) -> None:
        match decision:
            case Truncate() | TruncateFully() | Skip():
                followed.happened(Event.DIVERGED)
                self._operate(followed, decision)
            case Retry(error):
                log.debug("follower waits", extra=fields(partition=followed.partition, leader=followed.leader, error=error))
                followed.back_off(self._loop.time())
            case Drop():
                epochs = {"followed": followed.leader_epoch, "answered": answer.leader_epoch}
                log.info("answer of another epoch dropped", extra=fields(partition=followed.partition, **epochs))
                followed.back_off(self._loop.time())
            case Append():
                raise AssertionError("appended already")

    def _append(
        self, view: memoryview, followed: FollowedPartition, dirty: dict[SyncScheduler[Partition], None], leaders_start: int
    ) -> Generator[None, None, Decision | None]:
        """Appends the batches of an answer. None: done. Otherwise the decision on what does not fit."""
        partition, at = followed.partition, 0
        while at < len(view) and followed.fetching and not partition.offline:
            partition_log = partition.log
            try:
                epochs = partition_log.epochs.latest, followed.leader_epoch
                piece = read_replicated(
                    view, at, partition_log.log_end_offset, epochs, bytes_max=PIECE_BYTES, batches_max=PIECE_BATCHES
                )
                if not piece.batches:
                    return None  # the last batch is incomplete
                record_producers(partition_log.producers, view, piece.with_producer)
                partition_log.append([view[at : at + piece.size]], piece.batches)
            except StartsBefore as error:
                anew = begins_within(error.base_offset, error.last_offset, followed.local_log(), leaders_start)
                return anew or self._refused(followed, error)
            except FarAhead as error:
                return Skip(error.base_offset)
            except NotReplicable as error:
                return self._refused(followed, error)
            except LogWriteError as error:
                partition.sync.room.append_failed(error, partition)
                if error.fatal:
                    followed.happened(Event.FAILED)
                    partition.sync.fail(error)
                    return None
                return Retry(0)
            except Exception:
                # A bug of ours. The log's content is unknown until the next start opens it again.
                log.exception("replicated batches not appended", extra=fields(partition=partition))
                partition.offline = True
                followed.happened(Event.FAILED)
                return None
            at += piece.size
            self._appended(partition, dirty)
            self._on_copied(followed.leader, piece.size)
            yield
        return None

    def _appended(self, partition: Partition, dirty: dict[SyncScheduler[Partition], None]) -> None:
        partition.next_offset = partition.log.log_end_offset
        partition.replica.copied(partition.next_offset, -1)
        partition.sync.appended(partition)
        if partition.replica.synced:
            partition.sync.mark_urgent()  # producers at the leader wait for it
        dirty[partition.sync] = None

    def _refused(self, followed: FollowedPartition, error: NotReplicable) -> Retry:
        log.error(
            "a leader's batches do not continue the log",
            extra=fields(partition=followed.partition, leader=followed.leader, reason=error),
        )
        return Retry(0)

    def _update_replica(self, answer: Pulled, followed: FollowedPartition) -> None:
        partition = followed.partition
        followed.succeeded()
        followed.lag = max(0, answer.log_end_offset - partition.log.log_end_offset)
        partition.replica.copied(partition.log.log_end_offset, answer.high_watermark)
        self._starts.follow(partition, followed.disk, answer.log_start_offset)
