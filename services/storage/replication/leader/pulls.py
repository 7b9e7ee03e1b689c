"""What followers ask of their leaders: PULL, with sessions, and PROGRESS (`libs/rpc/contracts/replication.py`).

A pull is looked at in three steps: what it names is compared with the logs here, and counted if it agrees; then whatever the
session has not heard is gathered; with nothing to tell it is parked. What happens to a partition meanwhile is noted in the
sessions that pull it, and those that are parked are answered together, once the event loop has done what it was about.

A position counts only once it was compared in this leader epoch: before, the follower's log may hold what another leader wrote.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

from libs.cluster.records import STORAGE
from libs.rpc.call import Call
from libs.rpc.contracts.replication import Progress, Pull
from libs.rpc.errors import ContractError
from libs.rpc.schema import unpack
from libs.wire.errors import ErrorCode
from services.storage.core.admission import Refusal, refuse_client_epoch
from services.storage.core.fetch_rules import Divergence, diverges, refuse_offset
from services.storage.core.pull_sessions import Key, Position, PullSession, PullSessions
from services.storage.hosted import Hosted
from services.storage.leader_throttle import LeaderThrottle
from services.storage.meters import Meters
from services.storage.partitions import Partitions
from services.storage.pull_answers import PullAnswer
from services.storage.timers import Timers

INVALID_REQUEST = int(ErrorCode.INVALID_REQUEST)
STALE_INCARNATION = int(ErrorCode.STALE_BROKER_EPOCH)
NOT_YET = (
    int(ErrorCode.NOT_LEADER_OR_FOLLOWER),
    int(ErrorCode.UNKNOWN_LEADER_EPOCH),
    int(ErrorCode.UNKNOWN_TOPIC_ID),
    int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
)
"""What may be over once this node has heard what the follower has."""
INLINE_BYTES_MAX = 64 << 20
STOPPING_WAIT_S = 0.05
"""A node that stops waits for nobody for long, and yet is not asked again at once."""
HIGH_WATERMARK_PATIENCE_S = 0.01
"""A high watermark alone is no reason to answer at once: under load it travels with the next batches."""


class _Parked:
    """One pull that waits."""

    __slots__ = ("call", "request", "timer")

    def __init__(self, call: Call, request: Pull, timer: asyncio.TimerHandle) -> None:
        self.call = call
        self.request = request
        self.timer = timer


class Pulls:
    """`accept` and `progress` for calls; `appended`, `committed` and `wake` for what happens to partitions.

    `on_committed` hears of each high watermark that a report raised, `on_joinable` of partitions whose ISR a follower may join.
    """

    def __init__(
        self,
        partitions: Partitions,
        meters: Meters,
        throttle: LeaderThrottle,
        *,
        on_committed: Callable[[Hosted], None],
        on_joinable: Callable[[Hosted], None],
    ) -> None:
        self._partitions = partitions
        self._meters = meters
        self._throttle = throttle
        self._timers = Timers()
        self._on_committed = on_committed
        self._on_joinable = on_joinable
        self._loop = asyncio.get_running_loop()
        self._sessions = PullSessions()
        self._parked: dict[PullSession, _Parked] = {}
        self._moved: dict[PullSession, None] = {}
        self._moved_a_little: dict[PullSession, None] = {}
        self._soon: asyncio.Handle | None = None
        self._later: asyncio.TimerHandle | None = None
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
        if request.inline and request.max_bytes > INLINE_BYTES_MAX:
            call.fail(INVALID_REQUEST, f"an inline pull asks for at most {INLINE_BYTES_MAX} bytes")
            return
        if not self._is_registered(request.node_id, request.incarnation):
            call.fail(STALE_INCARNATION, f"storage node {request.node_id} is not registered in that incarnation")
            return
        session = self._session(call, request)
        if session is None:
            return
        now = session.alive_at = self._loop.time()
        for named in request.partitions:
            key = named.topic_id, named.partition
            self._compare(session, key, self._sessions.name(session, named), now)
        self._leave(session, request.dropped)
        if request.max_wait_ms <= 0:
            self._answer(session, call, request, final=True)
        elif not self._has_urgent_news(session):
            self._answer_later(session)
            self._park(session, call, request)
        elif not self._answer(session, call, request, final=False):
            self._park(session, call, request)

    def _park(self, session: PullSession, call: Call, request: Pull) -> None:
        wait_s = request.max_wait_ms / 1000
        if self._stopping:
            wait_s = min(wait_s, STOPPING_WAIT_S)
        timer = self._loop.call_later(wait_s, self._time_out, session)
        self._parked[session] = _Parked(call, request, timer)
        call.on_cancel(partial(self._forget, session, call))

    def progress(self, call: Call) -> None:
        """One-way, so whatever is wrong with it is passed over."""
        try:
            told = unpack(Progress, call.body)
        except ContractError:
            return
        if not self._is_registered(told.node_id, told.incarnation):
            return
        now = self._loop.time()
        for made in told.partitions:
            self._sessions.made_durable(told.node_id, told.incarnation, made)
            hosted = self._partitions.by_key.get((made.topic_id, made.partition))
            if hosted is None or not hosted.leading or hosted.leader_epoch != made.leader_epoch:
                continue
            numbers = made.durable_offset, now, made.log_start_offset
            if hosted.replica.made_durable(told.node_id, told.incarnation, *numbers):
                self._on_committed(hosted)
            if hosted.replica.may_join(told.node_id, hosted.log_start_offset):
                self._on_joinable(hosted)

    def _is_registered(self, node_id: int, incarnation: int) -> bool:
        # KAFKA-15221: what a process asked before it was restarted must not speak for the one that runs now.
        member = self._partitions.image.members(STORAGE).get(node_id)
        return member is not None and member.incarnation == incarnation

    def _session(self, call: Call, request: Pull) -> PullSession | None:
        """None: the call was refused."""
        before = self._sessions.by_node.get(request.node_id)
        left = list(before.positions) if before is not None and request.sequence == 0 else []
        session = self._sessions.take(request)
        if isinstance(session, int):
            call.fail(session, "the pull session is not known, or out of step: begin another")
            return None
        if session is not before and before is not None:
            self._abandon(before, left)
        if request.sequence == 0:
            self._abandon_the_gone()
        elif session in self._parked:  # its follower gave up on the pull that waits, or it would not send another
            self._forget(session, self._parked[session].call)
        return session

    def _abandon(self, session: PullSession, keys: list[Key]) -> None:
        parked = self._parked.pop(session, None)
        if parked is not None:
            parked.timer.cancel()
            parked.call.fail(int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND), "another session has begun")
        self._moved.pop(session, None)
        self._moved_a_little.pop(session, None)
        for key in keys:
            self._left(session, key)

    def _abandon_the_gone(self) -> None:
        for session in list(self._sessions.by_node.values()):
            if session not in self._parked and not self._is_registered(session.node_id, session.incarnation):
                keys = list(session.positions)
                self._sessions.end(session)
                self._abandon(session, keys)

    def _leave(self, session: PullSession, keys: tuple[Key, ...]) -> None:
        self._sessions.drop(session, keys)
        for key in keys:
            self._left(session, key)

    def _left(self, session: PullSession, key: Key) -> None:
        hosted = self._partitions.by_key.get(key)
        if hosted is not None:
            hosted.replica.left(session.node_id)

    # -- what happens to partitions ---------------------------------------------------------------------------------------

    def appended(self, key: Key) -> None:
        """Bytes arrived."""
        for session in self._sessions.on(key):
            if session.moved(key):
                self._answer_soon(session)

    def committed(self, key: Key) -> None:
        """The high watermark or the log's start rose."""
        for session in self._sessions.on(key):
            if session.moved(key):
                self._answer_later(session)

    def wake(self, key: Key) -> None:
        """The leader, its epoch, or the partition's existence changed."""
        now = self._loop.time()
        for session in self._sessions.on(key):
            position = session.positions[key]
            if not position.muted:
                self._compare(session, key, position, now)
                session.moved(key)
                self._answer_soon(session)

    def close(self) -> None:
        """The node is about to stop: who waits hears what there is, and who comes now waits but for a moment."""
        self._stopping = True
        for session in list(self._parked):
            self._time_out(session)
        for handle in (self._soon, self._later):
            if handle is not None:
                handle.cancel()
        self._timers.close()

    # -- comparing --------------------------------------------------------------------------------------------------------

    def _compare(self, session: PullSession, key: Key, position: Position, now: float) -> None:
        """Whether the follower's log up to its position is this one's. If so, and for the first time, its report counts."""
        found = self._partitions.serving(key)
        position.divergence, position.early = None, False
        if isinstance(found, Refusal):
            position.error = found.error
            position.early = found.error in NOT_YET and found.leader_epoch <= position.leader_epoch
            return
        position.error = refuse_client_epoch(max(position.leader_epoch, 0), found.leader_epoch)
        if position.error:
            position.early = position.error in NOT_YET
            return
        if position.compared:
            return
        offset, epoch = position.fetch_offset, position.last_fetched_epoch
        position.error = refuse_offset(offset, found.log_start_offset, found.log_end_offset)
        if not position.error and epoch >= 0:
            match diverges(epoch, offset, *found.end_of_epoch(epoch)):
                case Divergence() as divergence:
                    position.divergence = divergence
                    return
                case int() as unknown:
                    position.error = unknown
        if position.error:
            return
        position.compared = True
        replica = found.replica
        node, incarnation = session.node_id, session.incarnation
        told = {"log_end": offset, "durable": position.durable, "log_start": position.log_start}
        if replica.reported(node, incarnation, **told, now=now, contact=session):
            self._on_committed(found)
        if replica.may_join(node, found.log_start_offset):
            self._on_joinable(found)

    # -- answering --------------------------------------------------------------------------------------------------------

    def _answer_soon(self, session: PullSession) -> None:
        if session in self._parked:
            self._moved[session] = None
            if self._soon is None:
                self._soon = self._loop.call_soon(self._answer_moved)

    def _answer_later(self, session: PullSession) -> None:
        if session.news:
            self._moved_a_little[session] = None
            if self._later is None:
                self._later = self._loop.call_later(HIGH_WATERMARK_PATIENCE_S, self._answer_moved_a_little)

    def _has_urgent_news(self, session: PullSession) -> bool:
        """More than a high watermark or a log start that rose."""
        by_key = self._partitions.by_key
        for key in session.news:
            position = session.positions[key]
            if not position.compared or position.told_high_watermark < 0:
                return True
            hosted = by_key.get(key)
            if hosted is None or not hosted.leading or position.fetch_offset < hosted.log.log_end_offset:
                return True
        return False

    def _answer_moved(self) -> None:
        self._soon = None
        moved, self._moved = self._moved, {}
        self._answer_all(moved)

    def _answer_moved_a_little(self) -> None:
        self._later = None
        moved, self._moved_a_little = self._moved_a_little, {}
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
        """False: there is nothing to tell, and time to wait for something."""
        if not session.news and not final:
            return False
        answer = PullAnswer(session, request, self._throttle, self._loop.time())
        for key in list(session.news):
            position = session.positions[key]
            if final or not position.early:
                found = self._partitions.serving(key)
                answer.tell(key, position, found if isinstance(found, Hosted) else None)
        if not answer.rows and not final:
            if answer.wait_s:
                self._timers.later(answer.wait_s, partial(self._answer_soon, session))
            return False
        self._meters.replication_bytes_out += answer.taken
        files = [(file.fd, start, length) for file, start, length in answer.files]
        call.reply([answer.rows], answer.payload, files)
        return True
