"""Pulls from one leader node: all partitions that it leads and this node follows, in one session.

When something must not wait for the end of the pull that waits at the leader (a partition came, or its log was cut), the next
one is sent all the same, and the leader lets go of the one before. It may have answered that already: then its answer comes
first, for the connection keeps the order, and counts. Once the later one is answered, the earlier one never will be.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

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
from services.storage.hosted import Hosted, Key

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


class LeaderLink:
    """`add` and `remove` partitions at any time; `reach` it, again whenever its address or incarnation changes."""

    def __init__(self, leader: int, puller: Puller) -> None:
        self.leader = leader
        self._puller = puller
        self._loop = asyncio.get_running_loop()
        self._session = PullSession(puller.new_session)
        self.followed: dict[Key, Followed] = {}
        self._client: RpcClient | None = None
        self._task: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()
        self._urged: asyncio.Future[None] | None = None
        self._urging: asyncio.TimerHandle | None = None
        self._due: asyncio.TimerHandle | None = None
        self._waiting: dict[Key, Followed] = {}
        self._calls: list[asyncio.Future[Response]] = []
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

    def made_durable(self, durable: list[Hosted]) -> None:
        """Tells the leader, and the next pull tells it again: it passes over what it is told before it leads, or has compared."""
        parts = []
        for hosted in durable:
            followed = self.followed.get(hosted.key)
            if followed is not None and followed.hosted is hosted and followed.fetching:
                parts.append(MadeDurable(*hosted.key, followed.leader_epoch, hosted.log.durable_offset))
                self._session.name(hosted.key)
        if parts and self._client is not None and not self._session.is_new:
            puller = self._puller
            self._client.oneway(PROGRESS, Progress(puller.node_id, puller.incarnation, tuple(parts)))

    # -- the connection ---------------------------------------------------------------------------------------------------

    def reach(self, client: RpcClient | None) -> RpcClient | None:
        """Pulls by this connection from now on. Returns the one before, for the caller to close."""
        before, self._client = self._client, client
        self._begin_anew()
        self._backoff.reset()
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if client is not None:
            self._task = self._loop.create_task(self._run(client), name=f"following {self.leader}")
        return before

    async def close(self) -> None:
        for timer in (self._urging, self._due):
            if timer is not None:
                timer.cancel()
        task = self._task
        client = self.reach(None)
        if task is not None:
            await asyncio.gather(task, return_exceptions=True)
        if client is not None:
            await client.close()

    def urge(self) -> None:
        """Something must not wait for the end of the pull that is under way."""
        self._wanted.set()
        if self._urged is not None and self._urging is None:
            self._urging = self._loop.call_later(GATHER_S, self._urge)

    def _urge(self) -> None:
        self._urging = None
        if self._urged is not None and not self._urged.done():
            self._urged.set_result(None)

    # -- pulling ----------------------------------------------------------------------------------------------------------

    async def _run(self, client: RpcClient) -> None:
        while True:
            await self._wanted.wait()
            self._call_up_due()
            if not any(followed.fetching for followed in self.followed.values()):
                self._wanted.clear()
                self._wake_when_due()
                continue
            try:
                self._send(client)
                await self._answered()
            except (RpcFailure, ContractError) as error:
                self._begin_anew()
                self._tell(str(error))
                if not (isinstance(error, RpcError) and error.code in OUT_OF_STEP):
                    await asyncio.sleep(self._backoff.next_s())
            except Exception:
                log.exception("pull failed", extra=fields(leader=self.leader))
                self._begin_anew()
                await asyncio.sleep(self._backoff.next_s())

    def _send(self, client: RpcClient) -> None:
        """Raises RpcFailure."""
        pull = self._next_pull()
        self._calls.append(client.call(PULL, pull, timeout_s=pull.max_wait_ms / 1000 + ANSWER_S))

    async def _answered(self) -> None:
        """Returns when an answer was applied, or another pull should be sent without one. Raises RpcFailure, ContractError."""
        urged = self._urged = self._loop.create_future()
        try:
            await asyncio.wait((*self._calls, urged), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._urged = None
        while (done := next((slot for slot, call in enumerate(self._calls) if call.done()), -1)) >= 0:
            given_up, call = self._calls[:done], self._calls[done]
            del self._calls[: done + 1]
            for earlier in given_up:
                earlier.cancel()
            answers = _read(call.result())
            self._backoff.reset()
            self._failure = ""
            self._puller.on_pulled(self.leader)
            await self._puller.applying.apply(answers, self._session, self.followed)
            for answer, _ in answers:
                followed = self.followed.get((answer.topic_id, answer.partition))
                if followed is not None and followed.state is State.WAITING:
                    self._waiting[followed.key] = followed

    def _begin_anew(self) -> None:
        self._session.begin_anew()
        calls, self._calls = self._calls, []
        for call in calls:
            call.cancel()

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

    def _wake_when_due(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None
        due_at = self._next_due()
        if due_at is not None:
            self._due = self._loop.call_at(due_at, self._wanted.set)

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
