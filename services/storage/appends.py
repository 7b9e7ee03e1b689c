"""The append path: what one socket read brought is checked, staged, written with one `pwritev` a partition, and answered.

An append that is ahead of this node (its caller's image is newer, or the partition is being opened) waits until the node is
where the caller takes it to be, and what comes behind it for the same partition waits too: refused, it would be overtaken.

A batch whose records must be looked at waits in `services/storage/opening_batches.py` and is staged when its turn comes. One
that is out of its producer's order is refused once the store has said who leads (`services/storage/leader_checks.py`).

Order of effects: check → stage (offsets are given here) → one write per partition at the end of the turn → answers to acks 0
and 1 → a sync round is kicked → answers to acks=all when the high watermark passes. Nothing is answered with success before
the write that holds it has returned.

This is the hottest code of the node (tens of thousands of calls a second), so requests are read from their decoded lists
and answers are written as lists, in the field order of `contracts/storage.py`; a test holds both to the contract.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from libs.clock import Clock
from libs.cluster.topic_names import INTERNAL_TOPICS
from libs.commitlog.errors import LogWriteError
from libs.commitlog.log import BatchMeta
from libs.commitlog.producers import Duplicate
from libs.rpc.call import Call
from libs.runtime.children import Children
from libs.telemetry.logs import fields
from libs.wire.batches import (
    TRANSACTIONAL,
    BatchError,
    BatchHeader,
    patch,
    set_log_append_time,
    validate_produce,
)
from libs.wire.errors import ErrorCode
from services.storage.append_messages import Answer, appended, partitions_of, refused, refused_as, refused_batch, revision_of
from services.storage.batch_opening import Opening
from services.storage.core.admission import Refusal, refuse_acks, refuse_caller_epoch
from services.storage.core.ownership import NOBODYS
from services.storage.early import Earlies, Early
from services.storage.expiry import Expiry
from services.storage.hosted import Hosted, Key
from services.storage.leader_checks import LeaderChecks
from services.storage.meters import Meters
from services.storage.opening_batches import OpeningBatches
from services.storage.ownership import Owners, is_owners
from services.storage.partitions import Partitions
from services.storage.waiting import AppendRequest, Staged

log = logging.getLogger(__name__)

INVALID_REQUEST = int(ErrorCode.INVALID_REQUEST)
NOT_LEADER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
STORAGE_ERROR = int(ErrorCode.KAFKA_STORAGE_ERROR)
TIMED_OUT = int(ErrorCode.REQUEST_TIMED_OUT)


class Appends:
    """`accept` for each call of a socket read, then `end_turn` once. `on_committed` hears of each high watermark that rose,
    `on_appended` of each partition that others copy and that grew."""

    def __init__(
        self,
        partitions: Partitions,
        clock: Clock,
        meters: Meters,
        checks: LeaderChecks,
        *,
        children: Children,
        children_max: int,
        on_appended: Callable[[Key], None],
        on_committed: Callable[[Hosted], None],
        readers_wait: Callable[[Key], bool],
    ) -> None:
        self._partitions = partitions
        self.owners = Owners(partitions)
        self._clock = clock
        self._meters = meters
        self._checks = checks
        self._on_appended = on_appended
        self._on_committed = on_committed
        self._readers_wait = readers_wait
        self._loop = asyncio.get_running_loop()
        self._expiry = Expiry(self._loop, meters)
        self._dirty: list[Hosted] = []
        self._turn_ms = -1  # wall time of this turn, -1 between turns
        self._turn_time = 0.0
        self._stopping = False
        self._early = Earlies(self._loop, partitions, self._refuse)
        self._openings = OpeningBatches(
            *(self._loop, children, children_max, meters), go_on=self._opened, time_out=self._opened_too_late
        )

    # -- accept ---------------------------------------------------------------------------------------------------------

    def accept(self, call: Call) -> None:
        """Answers at once what is refused; the rest is answered at the end of the turn, or later."""
        payload = call.payload
        body: Any = call.body
        parts = partitions_of(body, len(payload))
        if parts is None:
            call.fail(INVALID_REQUEST, "not a storage.append")
            return
        if self._turn_ms < 0:
            self._begin_turn()
        acks: int = body[0]
        request = AppendRequest(call, acks, self._turn_time, body[1] / 1000, len(parts))
        self._meters.produce_requests += len(parts)
        waiting = bool(self._early)
        end = 0
        for slot, part in enumerate(parts):
            topic_id, index, epoch, length = part[:4]
            start, end = end, end + length
            key = topic_id, index
            found = self._admit(key, epoch, acks)
            if len(part) > 4 and is_owners(part):  # never waits: whatever keeps it from being stored now, its owner claims again
                self.owners.take(found, part, request, slot, payload[start:end], self._stage)
            elif type(found) is Hosted and not (waiting and key in self._early):
                self._settle_or_stage(found, request, slot, payload[start:end], epoch)
            else:
                early = Early(request, slot, epoch, revision_of(body), payload[start:end])
                if not self._early.hold(key, early, found):
                    self._refuse(request, slot, found if isinstance(found, Refusal) else Refusal(NOT_LEADER))

    def _begin_turn(self) -> None:
        self._turn_ms, self._turn_time = self._clock.wall_ms(), self._loop.time()

    def _admit(self, key: Key, epoch: int, acks: int) -> Hosted | Refusal:
        hosted = self._partitions.by_key.get(key)
        if hosted is None or not hosted.replica.leading or hosted.offline or hosted.sync.stalled or self._stopping:
            return self._why_not(key)
        replica = hosted.replica
        if epoch != replica.leader_epoch and (refusal := refuse_caller_epoch(epoch, replica.leader_epoch)):
            return refusal
        if acks != 1 and (error := refuse_acks(acks, replica.in_sync, replica.min_in_sync)):
            return Refusal(error)
        return hosted

    def _why_not(self, key: Key) -> Refusal:
        found = self._partitions.serving(key)
        if self._stopping:
            return Refusal(NOT_LEADER, None, -1, found.leader_epoch)
        if isinstance(found, Refusal):
            return found
        return Refusal(STORAGE_ERROR, "the disk of this partition does not answer")

    def _settle_or_stage(self, hosted: Hosted, request: AppendRequest, slot: int, view: memoryview, epoch: int) -> None:
        if hosted.topic in INTERNAL_TOPICS:
            self._refuse(request, slot, NOBODYS)
            return
        try:
            if hosted.opens:
                opening = self._openings.take(hosted, request, slot, view, epoch, self._turn_ms)
                if opening is not None:
                    self._stage(hosted, request, slot, *opening.result())
            else:
                self._stage(hosted, request, slot, view)
        except BatchError as error:
            self._meters.failed_produces += 1
            request.settle(slot, refused_batch(error, hosted.log.log_start_offset))

    def _refuse(self, request: AppendRequest, slot: int, refusal: Refusal) -> None:
        self._meters.failed_produces += 1
        request.settle(slot, refused_as(refusal))

    def _stage(
        self, hosted: Hosted, request: AppendRequest, slot: int, view: memoryview, header: BatchHeader | None = None
    ) -> None:
        """Gives the batch its offsets. Raises BatchError, with nothing changed. `header`: of a batch that was checked before."""
        limits = hosted.limits
        if header is None:
            header = validate_produce(view, limits, self._turn_ms)
        base = hosted.next_offset
        epoch = hosted.replica.leader_epoch
        max_timestamp = header.max_timestamp
        time_ms = -1
        if limits.log_append_time:
            max_timestamp = time_ms = self._turn_ms
        if header.producer_id >= 0:
            producers = hosted.log.producers
            try:
                verdict = producers.check(header)
            except BatchError as error:
                self._refuse_sequence(hosted, request, slot, refused_batch(error, hosted.log_start_offset))
                return
            if type(verdict) is Duplicate:
                self._repeat(hosted, request, slot, verdict)
                return
            if header.attributes & TRANSACTIONAL:  # no coordinator has said that this partition is part of a transaction
                raise BatchError(ErrorCode.INVALID_TXN_STATE, "there is no transaction coordinator yet")
            producers.record_stamped(header, base, max_timestamp)
        # From here on nothing can fail: what the producers remember, the lists hold.
        patch(view, base, epoch)
        if time_ms >= 0:
            set_log_append_time(view, time_ms)
        if not hosted.staged:
            self._dirty.append(hosted)
        hosted.next_offset = end = base + header.last_offset_delta + 1
        hosted.buffers.append(view)
        hosted.batches.append(BatchMeta(base, end - 1, len(view), max_timestamp, end - 1, epoch))
        hosted.staged.append(Staged(request, slot, end, appended(base, time_ms, hosted.log.log_start_offset)))

    def _refuse_sequence(self, hosted: Hosted, request: AppendRequest, slot: int, answer: Answer) -> None:
        self._meters.failed_produces += 1
        request.written()
        self._checks.ask(hosted, lambda refusal: request.settle(slot, refused_as(refusal) if refusal is not None else answer))

    def _repeat(self, hosted: Hosted, request: AppendRequest, slot: int, original: Duplicate) -> None:
        """A duplicate is answered like its original and never before it: it waits for the same offset."""
        self._meters.duplicates += 1
        # Kafka tells the original's time, whatever the topic's timestamp type.
        answer = appended(original.base_offset, original.timestamp, hosted.log.log_start_offset)
        duplicate = Staged(request, slot, original.last_offset + 1, answer)
        if duplicate.end_offset > hosted.log.log_end_offset:
            hosted.staged.append(duplicate)  # the original is of this very turn: its write may still fail
        else:
            self._written(hosted, duplicate, self._loop.time())

    # -- the end of the turn --------------------------------------------------------------------------------------------

    def end_turn(self) -> None:
        """Writes what was staged, answers what can be answered, and starts sync rounds."""
        if self._turn_ms < 0:
            return
        self._turn_ms = -1
        if not self._dirty:
            return
        dirty, self._dirty = self._dirty, []
        for hosted in dirty:
            try:
                self._write(hosted)
            except Exception:
                # The others of this turn have nothing to do with it. What it left unanswered ends by its callers' deadlines.
                log.exception("append not answered", extra=fields(partition=hosted))
        for hosted in dirty:
            hosted.sync.kick()

    def _write(self, hosted: Hosted) -> None:
        staged, buffers, batches = hosted.take_staged()
        try:
            hosted.log.append(buffers, batches)
        except LogWriteError as error:
            self._write_failed(hosted, staged, str(error))
            if error.fatal:
                hosted.sync.fail(error)
            return
        except Exception:
            # A mistake of ours. Nobody knows what is in the log now: reopening it, at the next start, finds out.
            log.exception("append failed", extra=fields(partition=hosted))
            hosted.offline = True
            self._write_failed(hosted, staged, "unexpected")
            return
        meters = self._meters
        start = batches[0].base_offset
        meters.messages_in += hosted.next_offset - start
        meters.bytes_in += batches[0].size if len(batches) == 1 else sum([batch.size for batch in batches])
        now = self._loop.time()
        meters.appended.observe(now - self._turn_time, len(batches))
        rose = hosted.replica.appended(hosted.next_offset)
        for one in staged:
            self._written(hosted, one, now)
        hosted.sync.appended(hosted)
        if hosted.replica.has_followers:
            self._on_appended(hosted.key)
        if hosted.parked or self._readers_wait(hosted.key):
            hosted.sync.hurry()
        if rose:
            self.committed(hosted)

    def _write_failed(self, hosted: Hosted, staged: list[Staged], reason: str) -> None:
        """Nothing of it is in the log, and the producers are as they were: a retry is no duplicate. Reads go on."""
        hosted.next_offset = hosted.log.log_end_offset
        log.error("append failed", extra=fields(partition=hosted, reason=reason, batches=len(staged)))
        self._meters.failed_produces += len(staged)
        answer = refused(STORAGE_ERROR, "the write to disk failed")
        for one in staged:
            one.refuse(answer)

    def _written(self, hosted: Hosted, one: Staged, now: float) -> None:
        if one.request.acks != -1 or one.end_offset <= hosted.replica.high_watermark:
            one.succeed()
            return
        one.request.written()
        one.appended_at = now
        hosted.parked.park(one.end_offset, one.request.deadline, one)
        self._expiry.watch(hosted, one.request.deadline)

    # -- what happens to those that wait --------------------------------------------------------------------------------

    def committed(self, hosted: Hosted) -> None:
        """The high watermark rose: answer in order, then let readers see it."""
        now = self._loop.time()
        for one in hosted.parked.committed(hosted.replica.high_watermark):
            self._meters.synced.observe(now - one.appended_at)
            one.succeed()
        self._on_committed(hosted)

    def refuse_waiting(self, hosted: Hosted, refusal: Refusal) -> None:
        """Leadership was lost, the disk failed, or the partition is gone: nobody waits here any longer."""
        answer = refused_as(refusal, in_log=True)
        for one in hosted.parked.drain():
            self._meters.failed_produces += 1
            one.refuse(answer)
        for opening in self._openings.drop(hosted):
            self._refuse(opening.request, opening.slot, refusal)
        self._expiry.forget(hosted)

    def _opened(self, openings: list[Opening]) -> None:
        """Their records were looked at. What may have happened to the partition meanwhile is asked again."""
        self._begin_turn()
        for one in openings:
            if one.request.gone:  # its caller has made other plans: storing it now could store it twice
                continue
            found = self._admit(one.hosted.key, one.leader_epoch, one.request.acks)
            if isinstance(found, Refusal):
                self._refuse(one.request, one.slot, found)
                continue
            try:
                self._stage(found, one.request, one.slot, *one.result())
            except BatchError as error:
                self._meters.failed_produces += 1
                one.request.settle(one.slot, refused_batch(error, found.log.log_start_offset))
            except Exception:
                log.exception("append not answered", extra=fields(partition=found))
        self.end_turn()

    def _opened_too_late(self, opening: Opening) -> None:
        self._meters.expired_produces += 1
        self._refuse(opening.request, opening.slot, Refusal(TIMED_OUT, "the batch waited for too long to be opened"))

    def recheck(self) -> None:
        """The image moved, or a partition was opened or could not be: those that came early go on, or are refused."""
        if not self._early:
            return
        self._begin_turn()
        for early, found in self._early.leaving(self._admit):
            if isinstance(found, Hosted):
                self._settle_or_stage(found, early.request, early.slot, early.view, early.leader_epoch)
            else:
                self._refuse(early.request, early.slot, found)
        self.end_turn()

    def stop(self) -> None:
        """Takes no more appends: the node is going down, and what comes now would miss the final sync."""
        self._stopping = True
        self._early.stop()
        self.recheck()
        for opening in self._openings.drop_all():
            self._refuse(opening.request, opening.slot, Refusal(NOT_LEADER, None, -1, opening.hosted.leader_epoch))

    def close(self) -> None:
        self._early.close()
        self._openings.close()
        self._expiry.close()
