"""The replica fetcher of one leader node: one session for all partitions that this node follows there.

A new or truncated partition must not wait for the end of the pull that is parked at the leader. So the next pull is sent at once,
and the leader drops the parked one. If the leader has answered that already, the answer arrives first, since the connection keeps
the order, and counts. Once the later pull is answered, the earlier one never will be.
"""

import asyncio
import logging
from collections.abc import Callable, Generator, Iterable
from functools import partial

from libs.cluster.backoff import Backoff
from libs.lean_dataclass import dataclass
from libs.rpc.client.rpc_client import Response, RpcClient
from libs.rpc.contracts.replication import PROGRESS, PULL, MadeDurable, Progress, Pull, Pulled, PulledFrom, PullReply
from libs.rpc.messages.errors import ContractError, RpcError, RpcFailure
from libs.rpc.messages.schema import unpack
from libs.telemetry.logs import fields
from libs.wire.errors import ErrorCode
from services.storage.core.replication.follower.following import Event, State
from services.storage.core.replication.follower.pulling import PullSession
from services.storage.partition.partition import Key, Partition
from services.storage.replication.follower.applying import Applying
from services.storage.replication.follower.followed_partition import FollowedPartition
from services.storage.replication.follower.leader_files import LeaderFiles
from services.storage.replication.follower.pull_limits import PullLimits
from services.storage.threads.turns import STRETCH_S

log = logging.getLogger("replication")

ANSWER_S = 10.0
"""The timeout of an answer, beyond the wait."""
GATHER_S = 0.01
"""The time in which new partitions gather for one pull."""
SESSION_ERRORS = (int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND), int(ErrorCode.INVALID_FETCH_SESSION_EPOCH))


@dataclass(frozen=True, slots=True)
class Puller:
    """The part that all fetchers share."""

    node_id: int
    incarnation: int
    new_session: Callable[[], int]
    applying: Applying
    on_pulled: Callable[[int], None]
    limits: Callable[[], PullLimits]


class _PendingPull:
    """A pull in flight."""

    __slots__ = ("_on_answer", "request_id", "sequence")

    def __init__(self, sequence: int, on_answer: "Callable[[_PendingPull, Response | Exception], None]") -> None:
        self.sequence = sequence
        self._on_answer = on_answer
        self.request_id = 0

    def answered(self, outcome: Response | Exception) -> None:
        self._on_answer(self, outcome)


class ReplicaFetcher:
    """The fetcher of one leader. Partitions come and go at any time. `use_client` follows its address and incarnation."""

    def __init__(self, leader: int, puller: Puller) -> None:
        self.leader = leader
        self._puller = puller
        self._loop = asyncio.get_running_loop()
        self._session = PullSession(puller.new_session)
        self.followed: dict[Key, FollowedPartition] = {}
        self._client: RpcClient | None = None
        self._files = LeaderFiles()
        self._backing_off: dict[Key, FollowedPartition] = {}
        self._calls: list[_PendingPull] = []
        self._answers: list[tuple[_PendingPull, Response | Exception]] = []
        """Answers that came while another was being applied."""
        self._steps: Generator[None, None, None] | None = None
        self._stepping: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._paused = False
        """Set after a failure, until the timer fires."""
        self._backoff = Backoff()
        self._failure = ""

    # -- what is followed -------------------------------------------------------------------------------------------------

    @property
    def files(self) -> LeaderFiles:
        """The leader's segments that are open here."""
        return self._files

    @property
    def unreachable(self) -> bool:
        """Whether the leader does not answer. See `RpcClient.unreachable`."""
        return self._client is not None and self._client.unreachable

    def add(self, followed: FollowedPartition) -> None:
        self.followed[followed.key] = followed
        self._session.name_again(followed.key)
        self.pull_soon()

    def remove(self, followed: FollowedPartition) -> None:
        if self.followed.get(followed.key) is followed:
            del self.followed[followed.key]
            self._backing_off.pop(followed.key, None)
            self._session.drop(followed.key)

    def resume(self, followed: FollowedPartition) -> None:
        """Pulls a partition again, perhaps from another offset, or after its backoff."""
        if followed.state is State.BACKING_OFF:
            self._backing_off[followed.key] = followed
        self._session.name_again(followed.key)
        self.pull_soon()

    def report_progress(self, changed: Iterable[Partition]) -> None:
        """Reports durable offsets to the leader, and again in the next pull: a leader that has not compared the logs ignores the
        first."""
        parts = []
        for partition in changed:
            followed = self.followed.get(partition.key)
            if followed is not None and followed.partition is partition and followed.fetching:
                parts.append(
                    MadeDurable(*partition.key, followed.leader_epoch, partition.log.durable_offset, partition.log_start_offset)
                )
                self._session.name(partition.key)
        if parts and self._client is not None and not self._session.is_new:
            puller = self._puller
            self._client.oneway(PROGRESS, Progress(puller.node_id, puller.incarnation, tuple(parts)))

    # -- the connection ---------------------------------------------------------------------------------------------------

    def use_client(self, client: RpcClient | None) -> RpcClient | None:
        """Pulls over this connection from now on. Returns the former one, for the caller to close."""
        before = self._client
        self._restart_session()
        self._client = client
        self._files.use_client(client)
        self._backoff.reset()
        if client is not None:
            self._pull_after(0.0)
        return before

    async def close(self) -> None:
        client = self.use_client(None)
        if self._timer is not None:
            self._timer.cancel()
        if client is not None:
            await client.close()

    def pull_soon(self) -> None:
        """Sends the next pull without waiting for the end of the one in flight."""
        if self._client is not None and not self._paused:
            self._pull_after(GATHER_S if self._calls else 0.0)

    # -- pulling ----------------------------------------------------------------------------------------------------------

    def _pull_after(self, seconds: float) -> None:
        """Pulls after that time, or when an answer comes."""
        resume_at = self._loop.time() + seconds
        if self._timer is not None:
            if self._timer.when() <= resume_at:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(resume_at, self._pull_now)

    def _pull_now(self) -> None:
        self._timer = None
        self._paused = False
        if self._steps is None:
            self._pull()

    def _pull(self) -> None:
        """Sends a pull, whether or not another is in flight, if there are partitions to pull."""
        client = self._client
        if client is None:
            return
        if self._backing_off:
            self._resume_due()
        if not any(followed.fetching for followed in self.followed.values()):
            resume_at = self._next_resume_at()
            if resume_at is not None:
                self._pull_after(max(0.0, resume_at - self._loop.time()))
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            pull = self._next_pull()
            call = _PendingPull(pull.sequence, self._answered)
            self._calls.append(call)
            timeout_s = pull.max_wait_ms / 1000 + ANSWER_S
            call.request_id = client.send(PULL, pull, (), call.answered, timeout_s=timeout_s)
        except RpcFailure as error:
            self._failed(error)

    def _answered(self, call: "_PendingPull", outcome: Response | Exception) -> None:
        """Applies the answer, in this turn unless it is large, and pulls again."""
        if call not in self._calls:
            return
        if self._steps is not None:
            self._answers.append((call, outcome))  # the answer to the pull before is being applied
            return
        superseded = self._calls[: self._calls.index(call)]
        del self._calls[: len(superseded) + 1]
        for earlier in superseded:
            self._cancel(earlier)
        if isinstance(outcome, Exception):
            self._failed(outcome)
            return
        try:
            answers, leaders_round = _read(outcome)
        except ContractError as error:
            self._failed(error)
            return
        self._session.round = max(self._session.round, leaders_round)
        self._backoff.reset()
        self._failure = ""
        self._puller.on_pulled(self.leader)
        read = partial(self._files.read, self._files.incarnation)
        self._steps = self._puller.applying.steps(answers, self._session, call.sequence, self.followed, self._backing_off, read)
        self._step()

    def _step(self) -> None:
        """Applies steps for a few milliseconds, then gives way to other work."""
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
            call, outcome = self._answers.pop(0)
            self._answered(call, outcome)
        else:
            self._pull()

    def _failed(self, error: Exception) -> None:
        self._restart_session()
        self._report_failure(str(error))
        if isinstance(error, RpcError) and error.code in SESSION_ERRORS:
            self._pull_after(0.0)
        else:
            self._paused = True
            self._pull_after(self._backoff.next_s())

    def _restart_session(self) -> None:
        """Begins a new session. Pulls in flight count no longer, and the rest of an answer is left out."""
        self._session.restart()
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
        self._paused = False

    def _cancel(self, call: "_PendingPull") -> None:
        if self._client is not None:
            self._client.cancel(call.request_id)

    def _next_pull(self) -> Pull:
        puller, session = self._puller, self._session
        keys = self.followed if session.is_new else session.named()
        positions: dict[Key, PulledFrom] = {}
        for key in keys:
            followed = self.followed.get(key)
            if followed is not None and followed.fetching:
                positions[key] = followed.pull_position()
        limits = puller.limits()
        number = session.number
        sequence, partitions, dropped = session.next_pull(positions, unanswered=bool(self._calls))
        return Pull(
            puller.node_id,
            puller.incarnation,
            number,
            sequence,
            self._wait_ms(limits.wait_ms),
            limits.response_bytes,
            limits.partition_bytes,
            partitions=partitions,
            dropped=dropped,
            inline=self._files.wants_bytes(),
            round=session.round,
            min_bytes=limits.min_bytes,
        )

    # -- what was put off -------------------------------------------------------------------------------------------------

    def _resume_due(self) -> None:
        now = self._loop.time()
        for key, followed in list(self._backing_off.items()):
            if followed.state is not State.BACKING_OFF:
                del self._backing_off[key]
            elif followed.resume_at <= now:
                del self._backing_off[key]
                followed.happened(Event.BACKOFF_ENDED)
                self._session.name_again(key)

    def _wait_ms(self, most: int) -> int:
        """The wait of a pull: not longer than until the next backoff ends."""
        resume_at = self._next_resume_at()
        return most if resume_at is None else max(1, min(most, int((resume_at - self._loop.time()) * 1000)))

    def _next_resume_at(self) -> float | None:
        return min((followed.resume_at for followed in self._backing_off.values()), default=None)

    def _report_failure(self, failure: str) -> None:
        if failure != self._failure:
            self._failure = failure
            log.warning("cannot pull from a leader", extra=fields(leader=self.leader, reason=failure))


def _read(response: Response) -> tuple[list[tuple[Pulled, memoryview]], int]:
    """Each partition's answer with its part of the payload, and the leader's round. Raises ContractError."""
    reply = unpack(PullReply, response.body)
    answers, at = [], 0
    for answer in reply.partitions:
        if not 0 <= answer.inline_length <= len(response.payload) - at:
            raise ContractError("a pull's answer claims more bytes than came with it")
        answers.append((answer, response.payload[at : at + answer.inline_length]))
        at += answer.inline_length
    return answers, reply.round
