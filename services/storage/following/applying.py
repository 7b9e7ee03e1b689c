"""Does what a leader's answer asks: appends, and then believes the high watermark; or has the log cut.

Order of effects, per partition and in the order of arrival: batches checked → producers and log take them → high watermark →
readers see it → log start. Sync rounds follow; what became durable is told when they end. Between pieces, other work gets its
turn, and what may have happened to the partition meanwhile is asked again.
"""

import asyncio
import logging
from collections.abc import Callable, Generator, Iterator, Sequence

from libs.commitlog.errors import LogWriteError
from libs.commitlog.replicated import FarAhead, NotReplicable, StartsBefore, read_replicated, record_producers
from libs.rpc.contracts.replication import Pulled
from libs.rpc.contracts.storage import FileRange
from libs.telemetry.logs import fields
from services.storage.core.following import (
    Append,
    BeginAnew,
    Decision,
    Drop,
    Event,
    Operation,
    Retry,
    Skip,
    State,
    Truncate,
    begins_within,
    decide,
)
from services.storage.core.pulling import PullSession
from services.storage.following.followed import Followed
from services.storage.following.starts import LogStarts
from services.storage.following.throttle import FollowerThrottle
from services.storage.hosted import Hosted, Key
from services.storage.sync_scheduler import SyncScheduler

log = logging.getLogger(__name__)

PIECE_BYTES, PIECE_BATCHES = 1 << 20, 500
"""Appended at once: about two milliseconds, whichever is reached first."""


class Applying:
    """Of all links. `operate` takes over what must be cut."""

    def __init__(
        self,
        operate: Callable[[Followed, Operation], None],
        starts: LogStarts,
        on_committed: Callable[[Hosted], None],
        on_copied: Callable[[int, int], None],
        throttle: FollowerThrottle,
    ) -> None:
        self._operate = operate
        self._starts = starts
        self._on_committed = on_committed
        self._on_copied = on_copied
        self._throttle = throttle
        self._loop = asyncio.get_running_loop()

    def steps(
        self,
        answers: Sequence[tuple[Pulled, memoryview]],
        session: PullSession,
        sequence: int,
        followed_by_key: dict[Key, Followed],
        waiting: dict[Key, Followed],
        read: Callable[[Sequence[FileRange]], memoryview | None],
    ) -> Generator[None, None, None]:
        """Applies them, a piece at each step; closing it leaves out what is left. Who is put off is `waiting` then.

        `sequence`: of the pull that they answer.
        `read`: the bytes of ranges that came instead of bytes, None to ask again.
        """
        dirty: dict[SyncScheduler, None] = {}
        try:
            for answer, view in answers:
                key = answer.topic_id, answer.partition
                followed, asked = followed_by_key.get(key), session.asked(key, sequence)
                if followed is None or asked is None or not followed.fetching:
                    continue  # it left, or this node leads it by now (KAFKA-13207)
                if (asked.leader_epoch, asked.fetch_offset) != (followed.leader_epoch, followed.position):
                    session.name_anyway(key)
                    continue
                if answer.ranges:
                    found = read(answer.ranges)
                    if found is None:
                        session.name_anyway(key)
                        continue
                    view = found
                try:
                    yield from self._apply(answer, view, followed, dirty)
                except Exception:
                    # A mistake of ours. The others have nothing to do with it.
                    log.exception("a leader's answer was not applied", extra=fields(partition=followed.hosted))
                    if followed.fetching:
                        followed.put_off(self._loop.time())
                if followed.state is State.WAITING:
                    waiting[key] = followed
                if followed.fetching and (view or answer.error):
                    session.name_anyway(key)
                else:
                    session.name(key)
                yield
        finally:
            for sync in dirty:
                sync.kick()

    def _apply(self, answer: Pulled, view: memoryview, followed: Followed, dirty: dict[SyncScheduler, None]) -> Iterator[None]:
        hosted = followed.hosted
        if hosted.offline:
            followed.happened(Event.BROKEN)
            return
        if hosted.sync.stalled and view:
            followed.put_off(self._loop.time())
            return
        decision = decide(answer, followed.own())
        if isinstance(decision, Append):
            found = yield from self._append(view, followed, dirty, answer.log_start_offset)
            if found is None:
                if followed.fetching:
                    self._learn(answer, followed)
                    if wait_s := self._throttle.copied(followed, len(view), self._loop.time()):
                        followed.wait_until(self._loop.time() + wait_s)
                return
            decision = found
        self._do(decision, answer, followed)

    def _do(self, decision: Decision, answer: Pulled, followed: Followed) -> None:
        match decision:
            case Truncate() | BeginAnew() | Skip():
                followed.happened(Event.PARTED)
                self._operate(followed, decision)
            case Retry(error):
                log.debug("follower waits", extra=fields(partition=followed.hosted, leader=followed.leader, error=error))
                followed.put_off(self._loop.time())
            case Drop():
                epochs = {"followed": followed.leader_epoch, "answered": answer.leader_epoch}
                log.info("answer of another epoch dropped", extra=fields(partition=followed.hosted, **epochs))
                followed.put_off(self._loop.time())
            case Append():
                raise AssertionError("appended already")

    def _append(
        self, view: memoryview, followed: Followed, dirty: dict[SyncScheduler, None], leaders_start: int
    ) -> Generator[None, None, Decision | None]:
        """None: done, or nothing more to do."""
        hosted, at = followed.hosted, 0
        while at < len(view) and followed.fetching and not hosted.offline:
            found = hosted.log
            try:
                epochs = found.epochs.latest, followed.leader_epoch
                piece = read_replicated(
                    *(view, at, found.log_end_offset, epochs), bytes_max=PIECE_BYTES, batches_max=PIECE_BATCHES
                )
                if not piece.batches:
                    return None  # the last batch was cut short
                record_producers(found.producers, view, piece.with_producer)
                found.append([view[at : at + piece.size]], piece.batches)
            except StartsBefore as error:
                anew = begins_within(error.base_offset, error.last_offset, followed.own(), leaders_start)
                return anew or self._refused(followed, error)
            except FarAhead as error:
                return Skip(error.base_offset)
            except NotReplicable as error:
                return self._refused(followed, error)
            except LogWriteError as error:
                log.error("replicated batches not written", extra=fields(partition=hosted, reason=error))
                if error.fatal:
                    followed.happened(Event.BROKEN)
                    hosted.sync.fail(error)
                    return None
                return Retry(0)
            except Exception:
                # A mistake of ours. Nobody knows what is in the log now: reopening it, at the next start, finds out.
                log.exception("replicated batches not appended", extra=fields(partition=hosted))
                hosted.offline = True
                followed.happened(Event.BROKEN)
                return None
            at += piece.size
            self._appended(hosted, dirty)
            self._on_copied(followed.leader, piece.size)
            yield
        return None

    def _appended(self, hosted: Hosted, dirty: dict[SyncScheduler, None]) -> None:
        hosted.next_offset = hosted.log.log_end_offset
        hosted.replica.copied(hosted.next_offset, -1)
        hosted.sync.appended(hosted)
        if hosted.replica.synced:
            hosted.sync.hurry()  # the leader's producers wait for it
        dirty[hosted.sync] = None

    def _refused(self, followed: Followed, error: NotReplicable) -> Retry:
        log.error(
            "a leader's batches do not continue the log",
            extra=fields(partition=followed.hosted, leader=followed.leader, reason=error),
        )
        return Retry(0)

    def _learn(self, answer: Pulled, followed: Followed) -> None:
        hosted = followed.hosted
        followed.went_well()
        followed.lag = max(0, answer.log_end_offset - hosted.log.log_end_offset)
        if hosted.replica.copied(hosted.log.log_end_offset, answer.high_watermark):
            self._on_committed(hosted)
        self._starts.follow(hosted, followed.disk, answer.log_start_offset)
