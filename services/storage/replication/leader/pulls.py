"""Pulls of followers: PULL, with sessions, and PROGRESS (`libs/rpc/contracts/replication.py`).

A pull takes three steps. The positions in it are compared with the logs here, and count if they agree. Then everything that the
session has not been sent is gathered. Without anything to send, the pull is parked. Changes of partitions are noted in the
sessions that pull them. Parked pulls are answered together, at the end of the event loop's turn.

A round asks followers whether they still follow (`begin_round`). Their parked pulls are answered at once, though there may be
nothing to send, and their next pulls name the round.

A partition whose log must be looked up on the disk, or whose records are not in the page cache, is left out of answers until a
thread of that disk has read them. So a disk that hangs holds up its own partitions, and answers stay in order.

A position counts only once it was compared in this leader epoch: before, the follower's log may hold what another leader wrote.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

from libs.cluster.records import STORAGE
from libs.commitlog.files.page_cache import NotInPageCache
from libs.commitlog.model.errors import LogDamaged, OffsetOutOfRange
from libs.rpc.contracts.replication import INLINE_BYTES_MAX, Progress, Pull
from libs.rpc.messages.errors import ContractError
from libs.rpc.messages.schema import unpack
from libs.rpc.server.call import Call
from libs.wire.errors import ErrorCode
from services.storage.core.fetch.fetch_rules import Divergence, diverges, refuse_offset
from services.storage.core.produce.admission import Refusal, refuse_client_epoch
from services.storage.core.produce.progress_trail import ProgressTrail
from services.storage.core.replication.leader.pull_sessions import Key, Position, PullSession, PullSessions
from services.storage.disks.disk_reads import DiskReads, TooManyReads
from services.storage.partition.partition import Partition
from services.storage.partition.partition_table import PartitionTable
from services.storage.replication.leader.pull_answers import PullAnswer
from services.storage.replication.leader.throttle import LeaderThrottle
from services.storage.storage_meters import StorageMeters
from services.storage.threads.timers import Timers

INVALID_REQUEST = int(ErrorCode.INVALID_REQUEST)
STALE_BROKER_EPOCH = int(ErrorCode.STALE_BROKER_EPOCH)
NOT_YET = (
    int(ErrorCode.NOT_LEADER_OR_FOLLOWER),
    int(ErrorCode.UNKNOWN_LEADER_EPOCH),
    int(ErrorCode.UNKNOWN_TOPIC_ID),
    int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
)
"""Errors that may be over when this node has the follower's image."""
STOPPING_WAIT_S = 0.05
"""The wait of pulls at a node that stops: short, but not so short that followers pull at once again."""
HIGH_WATERMARK_DELAY_S = 0.01
"""The delay of a high watermark without batches: under load it travels with the next ones."""
DISK_RETRY_S = 1.0
"""The pause before a partition is read again, if too many reads wait for its disk."""


class _ParkedPull:
    """One pull that waits."""

    __slots__ = ("call", "request", "timer")

    def __init__(self, call: Call, request: Pull, timer: asyncio.TimerHandle) -> None:
        self.call = call
        self.request = request
        self.timer = timer


class Pulls:
    """The pulls of followers. `accept` and `progress` take calls; `appended`, `committed` and `wake` take changes of
    partitions. `on_round` is called with a session whose pull names a later round than before."""

    def __init__(
        self,
        partitions: PartitionTable,
        meters: StorageMeters,
        throttle: LeaderThrottle,
        disk_reads: DiskReads,
        trail: ProgressTrail,
        on_round: Callable[[PullSession], None],
    ) -> None:
        self._partitions = partitions
        self._disk_reads = disk_reads
        self._meters = meters
        self._throttle = throttle
        self._trail = trail
        self._on_round = on_round
        self._round = 0
        self._timers = Timers()
        self._loop = asyncio.get_running_loop()
        self._sessions = PullSessions()
        self._parked: dict[PullSession, _ParkedPull] = {}
        self._moved: dict[PullSession, None] = {}
        self._advanced: dict[PullSession, None] = {}
        self._soon_handle: asyncio.Handle | None = None
        self._later_timer: asyncio.TimerHandle | None = None
        self._stopping = False

    @property
    def parked(self) -> int:
        return len(self._parked)

    # -- calls ------------------------------------------------------------------------------------------------------------

    def accept(self, call: Call) -> None:
        try:
            request = unpack(Pull, call.body)
        except ContractError as error:
            call.fail(INVALID_REQUEST, str(error))
            return
        call.peer.require_sender(request.node_id, request.incarnation)
        if request.inline and request.max_bytes > INLINE_BYTES_MAX:
            call.fail(INVALID_REQUEST, f"an inline pull asks for at most {INLINE_BYTES_MAX} bytes")
            return
        if not self._is_registered(request.node_id, request.incarnation):
            call.fail(STALE_BROKER_EPOCH, f"storage node {request.node_id} is not registered in that incarnation")
            return
        session = self._session(call, request)
        if session is None:
            return
        now = session.alive_at = self._loop.time()
        for named in request.partitions:
            key = named.topic_id, named.partition
            self._compare(session, key, self._sessions.name(session, named), now)
        self._leave(session, request.dropped)
        if request.round > session.round:
            session.round = request.round
            self._on_round(session)
        if request.max_wait_ms <= 0:
            self._answer(session, call, request, final=True)
        elif request.round >= session.asked and not self._is_urgent(session):
            self._answer_later(session)
            self._park(session, call, request)
        elif not self._answer(session, call, request, final=False):
            self._park(session, call, request)

    def _park(self, session: PullSession, call: Call, request: Pull) -> None:
        wait_s = request.max_wait_ms / 1000
        if self._stopping:
            wait_s = min(wait_s, STOPPING_WAIT_S)
        timer = self._loop.call_later(wait_s, self._time_out, session)
        self._parked[session] = _ParkedPull(call, request, timer)
        call.on_cancel(partial(self._forget, session, call))

    def progress(self, call: Call) -> None:
        """Takes progress. It is one-way, so its sender hears of no error."""
        try:
            report = unpack(Progress, call.body)
        except ContractError:
            return
        call.peer.require_sender(report.node_id, report.incarnation)
        if not self._is_registered(report.node_id, report.incarnation):
            return
        now = self._loop.time()
        for made in report.partitions:
            self._sessions.made_durable(report.node_id, report.incarnation, made)
            partition = self._partitions.by_key.get((made.topic_id, made.partition))
            if partition is None or not partition.leading or partition.leader_epoch != made.leader_epoch:
                continue
            starts = {"log_start": made.log_start_offset, "own_start": partition.log_start_offset}
            partition.replica.made_durable(report.node_id, report.incarnation, made.durable_offset, now, **starts)
            if partition.parked:
                self._trail.note(partition.key, report.node_id, made.durable_offset, now)

    def _is_registered(self, node_id: int, incarnation: int) -> bool:
        # KAFKA-15221: a call of an earlier incarnation must not speak for the present one.
        member = self._partitions.image.members(STORAGE).get(node_id)
        return member is not None and member.incarnation == incarnation

    def _session(self, call: Call, request: Pull) -> PullSession | None:
        """The session of a pull. None: the call was refused."""
        before = self._sessions.by_node.get(request.node_id)
        left = list(before.positions) if before is not None and request.sequence == 0 else []
        session = self._sessions.take(request)
        if isinstance(session, int):
            call.fail(session, "the pull session is not known, or out of step: begin another")
            return None
        if session is not before and before is not None:
            self._abandon(before, left)
        if request.sequence == 0:
            session.asked = self._round  # a round may await the session before
            self._abandon_unregistered()
            self._meters.held_up_by.setdefault(request.node_id, 0)  # Prometheus sees no increase in a series that begins at 1
        elif session in self._parked:  # its follower gave up on the parked pull, or it would not send another
            self._forget(session, self._parked[session].call)
        return session

    def _abandon(self, session: PullSession, keys: list[Key]) -> None:
        parked = self._parked.pop(session, None)
        if parked is not None:
            parked.timer.cancel()
            parked.call.fail(int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND), "another session has begun")
        self._moved.pop(session, None)
        self._advanced.pop(session, None)
        for key in keys:
            self._follower_left(session, key)

    def _abandon_unregistered(self) -> None:
        for session in list(self._sessions.by_node.values()):
            if session not in self._parked and not self._is_registered(session.node_id, session.incarnation):
                keys = list(session.positions)
                self._sessions.end(session)
                self._abandon(session, keys)

    def _leave(self, session: PullSession, keys: tuple[Key, ...]) -> None:
        self._sessions.drop(session, keys)
        for key in keys:
            self._follower_left(session, key)

    def _follower_left(self, session: PullSession, key: Key) -> None:
        partition = self._partitions.by_key.get(key)
        if partition is not None:
            partition.replica.follower_left(session.node_id)

    # -- rounds -----------------------------------------------------------------------------------------------------------

    def begin_round(self, keys: Iterable[Key]) -> int:
        """Begins a round: asks the followers of these partitions whether they still follow. Rounds of one turn share answers."""
        self._round += 1
        for key in keys:
            for session in self._sessions.on(key):
                session.asked = self._round
                self._answer_soon(session)
        return self._round

    def all_follow(self, key: Key, nodes: Iterable[int], leader_epoch: int, *, since_round: int) -> bool:
        return self._sessions.all_follow(key, nodes, leader_epoch, since_round=since_round)

    # -- what happens to partitions ---------------------------------------------------------------------------------------

    def appended(self, key: Key) -> None:
        """Notes new bytes."""
        for session in self._sessions.on(key):
            if session.moved(key):
                self._answer_soon(session)

    def committed(self, key: Key) -> None:
        """Notes a higher high watermark or log start."""
        for session in self._sessions.on(key):
            if session.moved(key):
                self._answer_later(session)

    def wake(self, key: Key) -> None:
        """Notes another leader, epoch or existence of the partition."""
        now = self._loop.time()
        for session in self._sessions.on(key):
            position = session.positions[key]
            if not position.muted:
                self._compare(session, key, position, now)
                session.moved(key)
                self._answer_soon(session)

    def close(self) -> None:
        """Answers all pulls, since the node stops. Later ones wait only for a moment."""
        self._stopping = True
        for session in list(self._parked):
            self._time_out(session)
        for handle in (self._soon_handle, self._later_timer):
            if handle is not None:
                handle.cancel()
        self._timers.close()

    # -- comparing --------------------------------------------------------------------------------------------------------

    def _compare(self, session: PullSession, key: Key, position: Position, now: float) -> None:
        """Compares the follower's log up to its position with this one. The first time that they agree, its report counts."""
        partition = self._partitions.serving(key)
        position.divergence, position.follower_ahead = None, False
        if isinstance(partition, Refusal):
            position.error = partition.error
            position.follower_ahead = partition.error in NOT_YET and partition.leader_epoch <= position.leader_epoch
            return
        position.error = refuse_client_epoch(max(position.leader_epoch, 0), partition.leader_epoch)
        if position.error:
            position.follower_ahead = position.error in NOT_YET
            return
        if position.compared:
            return
        offset, epoch = position.fetch_offset, position.last_fetched_epoch
        position.error = refuse_offset(offset, partition.log_start_offset, partition.log_end_offset)
        if not position.error and epoch >= 0:
            own_epoch, end_offset = partition.end_of_epoch(epoch)
            match diverges(epoch, offset, own_epoch, end_offset):
                case Divergence() as divergence:
                    position.divergence = divergence
                    return
                case int() as unknown:
                    position.error = unknown
        if position.error:
            return
        position.compared = True
        ends = {"log_end": offset, "durable": position.durable}
        starts = {"log_start": position.log_start, "own_start": partition.log_start_offset}
        partition.replica.reported(session.node_id, session.incarnation, **ends, **starts, now=now, contact=session)
        if partition.parked:
            reached = position.durable if partition.replica.synced else offset
            self._trail.note(key, session.node_id, reached, now)

    # -- answering --------------------------------------------------------------------------------------------------------

    def _answer_soon(self, session: PullSession) -> None:
        if session in self._parked:
            self._moved[session] = None
            if self._soon_handle is None:
                self._soon_handle = self._loop.call_soon(self._answer_moved)

    def _answer_later(self, session: PullSession) -> None:
        if session.pending:
            self._advanced[session] = None
            if self._later_timer is None:
                self._later_timer = self._loop.call_later(HIGH_WATERMARK_DELAY_S, self._answer_advanced)

    def _is_urgent(self, session: PullSession) -> bool:
        """Whether there is more to send than a higher high watermark or log start."""
        by_key = self._partitions.by_key
        for key in session.pending:
            position = session.positions[key]
            if not position.compared or position.sent_high_watermark < 0:
                return True
            partition = by_key.get(key)
            if partition is None or not partition.leading or position.fetch_offset < partition.log.log_end_offset:
                return True
        return False

    def _holds_back(self, session: PullSession, request: Pull) -> bool:
        """Whether the records to send are too few for the pull, and there is nothing else that cannot wait."""
        wanted, waiting = min(request.min_bytes, request.max_bytes), 0
        for key in session.pending:
            position = session.positions[key]
            partition = self._partitions.serving(key)
            if position.error or position.divergence is not None or not isinstance(partition, Partition):
                return False
            try:
                with self._disk_reads.attempt((session, key)):
                    offset, end = position.fetch_offset, partition.log_end_offset
                    piece = partition.read(offset, request.partition_max_bytes, end, at_least_one_batch=True)
            except (NotInPageCache, OffsetOutOfRange, LogDamaged, OSError):
                return False  # the answer deals with it
            waiting += piece.length if piece is not None else 0
            if waiting >= wanted:
                return False
        return waiting > 0

    def _answer_moved(self) -> None:
        self._soon_handle = None
        moved, self._moved = self._moved, {}
        self._answer_all(moved)

    def _answer_advanced(self) -> None:
        self._later_timer = None
        moved, self._advanced = self._advanced, {}
        self._answer_all(moved)

    def _answer_all(self, moved: Iterable[PullSession]) -> None:
        for session in moved:
            parked = self._parked.get(session)
            if parked is not None and self._answer(session, parked.call, parked.request, final=False):
                self._forget(session, parked.call)

    def _time_out(self, session: PullSession) -> None:
        parked = self._parked[session]
        self._forget(session, parked.call)
        self._answer(session, parked.call, parked.request, final=True)

    def _forget(self, session: PullSession, call: Call) -> None:
        parked = self._parked.get(session)
        if parked is not None and parked.call is call:
            del self._parked[session]
            parked.timer.cancel()

    def _answer(self, session: PullSession, call: Call, request: Pull, *, final: bool) -> bool:
        """Answers a pull. False: there is nothing to send, and time to wait."""
        asks = request.round < session.asked
        if not (session.pending or final or asks):
            return False
        if request.min_bytes > 1 and not (final or asks) and self._holds_back(session, request):
            return False
        answer = PullAnswer(session, request, self._throttle, self._loop.time(), self._disk_reads.attempt)
        for key in list(session.pending):
            position = session.positions[key]
            if final or not position.follower_ahead:
                partition = self._partitions.serving(key)
                answer.add(key, position, partition if isinstance(partition, Partition) else None)
        for name, needed in answer.needed:
            try:
                self._disk_reads.missed(name, needed, partial(self._answer_soon, session))
            except TooManyReads:
                self._timers.later(DISK_RETRY_S, partial(self._answer_soon, session))
        if not (answer.rows or final or asks):
            if answer.wait_s:
                self._timers.later(answer.wait_s, partial(self._answer_soon, session))
            return False
        self._meters.replication_bytes_out += answer.taken
        files = [(file.fd, start, length) for file, start, length in answer.files]
        call.reply([answer.rows, self._round], answer.payload, files)
        return True
