"""Pulls from one leader node: all partitions that it leads and this node follows, in one session.

When something must not wait for the end of the pull that waits at the leader (a partition came, or its log was cut), the next
one is sent all the same, and the leader lets go of the one before. It may have answered that already: then its answer comes
first, for the connection keeps the order, and counts. Once the later one is answered, the earlier one never will be.
"""

import asyncio
import logging
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from functools import partial

from libs.cluster.backoff import Backoff
from libs.rpc.client import Response, RpcClient
from libs.rpc.contracts.replication import PROGRESS, PULL, MadeDurable, Progress, Pull, Pulled, PulledFrom, PullReply
from libs.rpc.errors import ContractError, RpcError, RpcFailure
from libs.rpc.schema import unpack
from libs.telemetry.logs import fields
from libs.wire.errors import ErrorCode
from services.storage.core.following import Event, State
from services.storage.core.pulling import PullSession
from services.storage.following.applying import Applying
from services.storage.following.followed import Followed
from services.storage.following.leaders_files import LeadersFiles
from services.storage.hosted import Hosted, Key
from services.storage.turns import STRETCH_S

log = logging.getLogger(__name__)

WAIT_MS, RESPONSE_BYTES, PARTITION_BYTES = 500, 10 << 20, 1 << 20
"""Kafka's replica.fetch.wait.max.ms, replica.fetch.response.max.bytes and replica.fetch.max.bytes."""
ANSWER_S = 10.0
"""Beyond the wait."""
GATHER_S = 0.01
"""Partitions that come so close together share a pull."""
OUT_OF_STEP = (int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND), int(ErrorCode.INVALID_FETCH_SESSION_EPOCH))


@dataclass(frozen=True, slots=True)
class Puller:
    """What all links share."""

    node_id: int
    incarnation: int
    new_session: Callable[[], int]
    applying: Applying
    on_pulled: Callable[[int], None]


class _PullCall:
    """One that is under way."""

    __slots__ = ("_on_answer", "request_id", "sequence")

    def __init__(self, sequence: int, on_answer: "Callable[[_PullCall, Response | Exception], None]") -> None:
        self.sequence = sequence
        self._on_answer = on_answer
        self.request_id = 0

    def answered(self, outcome: Response | Exception) -> None:
        self._on_answer(self, outcome)


class LeaderLink:
    """`add` and `remove` partitions at any time; `reach` it, again whenever its address or incarnation changes."""

    def __init__(self, leader: int, puller: Puller) -> None:
        self.leader = leader
        self._puller = puller
        self._loop = asyncio.get_running_loop()
        self._session = PullSession(puller.new_session)
        self.followed: dict[Key, Followed] = {}
        self._client: RpcClient | None = None
        self._files = LeadersFiles()
        self._waiting: dict[Key, Followed] = {}
        self._calls: list[_PullCall] = []
        self._answers: list[tuple[_PullCall, Response | Exception]] = []
        """That came while another was being applied."""
        self._steps: Generator[None, None, None] | None = None
        self._stepping: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._resting = False
        """After a failure, until the timer is over."""
        self._backoff = Backoff()
        self._failure = ""

    # -- what is followed -------------------------------------------------------------------------------------------------

    def add(self, followed: Followed) -> None:
        self.followed[followed.key] = followed
        self._session.name_anyway(followed.key)
        self.urge()

    def remove(self, followed: Followed) -> None:
        if self.followed.get(followed.key) is followed:
            del self.followed[followed.key]
            self._waiting.pop(followed.key, None)
            self._session.drop(followed.key)

    def go_on(self, followed: Followed) -> None:
        """It is fetching again, from another place perhaps; or will be, when it is due."""
        if followed.state is State.WAITING:
            self._waiting[followed.key] = followed
        self._session.name_anyway(followed.key)
        self.urge()

    def tell_progress(self, changed: Iterable[Hosted]) -> None:
        """Tells the leader, and the next pull tells it again: it passes over what it is told before it leads, or has compared."""
        parts = []
        for hosted in changed:
            followed = self.followed.get(hosted.key)
            if followed is not None and followed.hosted is hosted and followed.fetching:
                parts.append(MadeDurable(*hosted.key, followed.leader_epoch, hosted.log.durable_offset, hosted.log_start_offset))
                self._session.name(hosted.key)
        if parts and self._client is not None and not self._session.is_new:
            puller = self._puller
            self._client.oneway(PROGRESS, Progress(puller.node_id, puller.incarnation, tuple(parts)))

    # -- the connection ---------------------------------------------------------------------------------------------------

    def reach(self, client: RpcClient | None) -> RpcClient | None:
        """Pulls by this connection from now on. Returns the one before, for the caller to close."""
        before = self._client
        self._begin_anew()
        self._client = client
        self._files.reach(client)
        self._backoff.reset()
        if client is not None:
            self._pull_after(0.0)
        return before

    async def close(self) -> None:
        client = self.reach(None)
        if self._timer is not None:
            self._timer.cancel()
        if client is not None:
            await client.close()

    def urge(self) -> None:
        """Something must not wait for the end of the pull that is under way."""
        if self._client is not None and not self._resting:
            self._pull_after(GATHER_S if self._calls else 0.0)

    # -- pulling ----------------------------------------------------------------------------------------------------------

    def _pull_after(self, seconds: float) -> None:
        """Or sooner, when an answer comes."""
        due_at = self._loop.time() + seconds
        if self._timer is not None:
            if self._timer.when() <= due_at:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(due_at, self._pull_now)

    def _pull_now(self) -> None:
        self._timer = None
        self._resting = False
        if self._steps is None:
            self._pull()

    def _pull(self) -> None:
        """Unless there is nothing to pull, whether or not another pull is under way."""
        client = self._client
        if client is None:
            return
        if self._waiting:
            self._call_up_due()
        if not any(followed.fetching for followed in self.followed.values()):
            due_at = self._next_due()
            if due_at is not None:
                self._pull_after(max(0.0, due_at - self._loop.time()))
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            pull = self._next_pull()
            call = _PullCall(pull.sequence, self._answered)
            self._calls.append(call)
            timeout_s = pull.max_wait_ms / 1000 + ANSWER_S
            call.request_id = client.send(PULL, pull, (), call.answered, timeout_s=timeout_s)
        except RpcFailure as error:
            self._failed(error)

    def _answered(self, call: "_PullCall", outcome: Response | Exception) -> None:
        """Applies the answer, in this very turn unless there is much of it, and pulls again."""
        if call not in self._calls:
            return
        if self._steps is not None:
            self._answers.append((call, outcome))  # to the pull before this one is being applied
            return
        given_up = self._calls[: self._calls.index(call)]
        del self._calls[: len(given_up) + 1]
        for earlier in given_up:
            self._cancel(earlier)
        if isinstance(outcome, Exception):
            self._failed(outcome)
            return
        try:
            answers = _read(outcome)
        except ContractError as error:
            self._failed(error)
            return
        self._backoff.reset()
        self._failure = ""
        self._puller.on_pulled(self.leader)
        read = partial(self._files.read, self._files.incarnation)
        self._steps = self._puller.applying.steps(answers, self._session, call.sequence, self.followed, self._waiting, read)
        self._step()

    def _step(self) -> None:
        """Others get their turn every few milliseconds."""
        self._stepping = None
        steps = self._steps
        if steps is None:
            return
        until = self._loop.time() + STRETCH_S
        try:
            for _ in steps:
                if self._loop.time() >= until:
                    self._stepping = self._loop.call_soon(self._step)
                    return
        except Exception as error:
            log.exception("pull failed", extra=fields(leader=self.leader))
            self._failed(error)
            return
        self._steps = None
        if self._answers:
            self._answered(*self._answers.pop(0))
        else:
            self._pull()

    def _failed(self, error: Exception) -> None:
        self._begin_anew()
        self._tell(str(error))
        if isinstance(error, RpcError) and error.code in OUT_OF_STEP:
            self._pull_after(0.0)
        else:
            self._resting = True
            self._pull_after(self._backoff.next_s())

    def _begin_anew(self) -> None:
        """What was asked for before counts no longer, and what was answered is left."""
        self._session.begin_anew()
        self._answers.clear()
        calls, self._calls = self._calls, []
        for call in calls:
            self._cancel(call)
        steps, self._steps = self._steps, None
        if steps is not None:
            steps.close()
        for handle in (self._stepping, self._timer):
            if handle is not None:
                handle.cancel()
        self._stepping = self._timer = None
        self._resting = False

    def _cancel(self, call: "_PullCall") -> None:
        if self._client is not None:
            self._client.cancel(call.request_id)

    def _next_pull(self) -> Pull:
        puller, session = self._puller, self._session
        keys = self.followed if session.is_new else session.named()
        standing: dict[Key, PulledFrom] = {}
        for key in keys:
            followed = self.followed.get(key)
            if followed is not None and followed.fetching:
                standing[key] = followed.standing()
        number = session.number
        sequence, partitions, dropped = session.next_pull(standing, unanswered=bool(self._calls))
        return Pull(
            *(puller.node_id, puller.incarnation, number, sequence, self._wait_ms(), RESPONSE_BYTES, PARTITION_BYTES),
            partitions=partitions,
            dropped=dropped,
            inline=self._files.wants_bytes(),
        )

    # -- what was put off -------------------------------------------------------------------------------------------------

    def _call_up_due(self) -> None:
        now = self._loop.time()
        for key, followed in list(self._waiting.items()):
            if followed.state is not State.WAITING:
                del self._waiting[key]
            elif followed.due_at <= now:
                del self._waiting[key]
                followed.happened(Event.DUE)
                self._session.name_anyway(key)

    def _wait_ms(self) -> int:
        """No longer than until the next one is due."""
        due_at = self._next_due()
        return WAIT_MS if due_at is None else max(1, min(WAIT_MS, int((due_at - self._loop.time()) * 1000)))

    def _next_due(self) -> float | None:
        return min((followed.due_at for followed in self._waiting.values()), default=None)

    def _tell(self, failure: str) -> None:
        if failure != self._failure:
            self._failure = failure
            log.warning("cannot pull from a leader", extra=fields(leader=self.leader, reason=failure))


def _read(response: Response) -> list[tuple[Pulled, memoryview]]:
    """Each partition's answer, and its share of the payload. Raises ContractError."""
    reply = unpack(PullReply, response.body)
    answers, at = [], 0
    for answer in reply.partitions:
        if not 0 <= answer.inline_length <= len(response.payload) - at:
            raise ContractError("a pull's answer claims more bytes than came with it")
        answers.append((answer, response.payload[at : at + answer.inline_length]))
        at += answer.inline_length
    return answers
