"""One request to the owner of a shard, whoever that is by then: until there is an answer, or an error that the client is told.

What was never sent, and what an owner refused without acting on it (14, it loads; 16, it is not the owner), is sent to whoever
owns the shard next, for a bounded time: the client sees a pause. What was sent and not answered is asked again only where it
changes nothing; everything else answers NOT_COORDINATOR (DESIGN section 4, hiding a failover), and the client looks anew.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from libs.rpc.client import Response
from libs.rpc.contracts.groups import ASK, Asked
from libs.rpc.errors import ContractError, Disconnected, Overloaded, RpcError, RpcFailure
from libs.rpc.schema import pack, unpack
from libs.telemetry.logs import fields
from libs.wire.api import ApiKey
from libs.wire.errors import ErrorCode

if TYPE_CHECKING:
    from services.gateway.coordinators import Coordinator, Coordinators

log = logging.getLogger(__name__)

LOADING: Final = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
UNAVAILABLE: Final = int(ErrorCode.COORDINATOR_NOT_AVAILABLE)
NOT_COORDINATOR: Final = int(ErrorCode.NOT_COORDINATOR)
TIMED_OUT: Final = int(ErrorCode.REQUEST_TIMED_OUT)
UNKNOWN: Final = int(ErrorCode.UNKNOWN_SERVER_ERROR)

PATIENCE_S = 3.0
"""From a request's arrival: so long a failover is hidden."""
HEARTBEAT_PATIENCE_S = 1.5
"""Of heartbeats. librdkafka takes a ConsumerGroupHeartbeat for lost after 5 s, with the wait for an OffsetCommit before it on the
same connection: together they are less."""
LAST_WORD_S = 0.5
"""A former owner that lives says within so long what became of what it was asked."""
ANSWER_S = 30.0
"""Kafka's clients give up after as much. An owner answers long before, unless others are waited for."""
PARKED_S = 2_150_000.0
"""Joins and syncs wait for other members, at most for their rebalance timeouts: milliseconds in an int32."""

WELL: Final = pack(Asked(0))

PARKED: Final = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})
READS: Final = frozenset(
    {
        ApiKey.OFFSET_FETCH,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.LIST_GROUPS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.HEARTBEAT,  # it moves a deadline, and twice is once
    }
)

HEARTBEATS: Final = frozenset({ApiKey.HEARTBEAT, ApiKey.CONSUMER_GROUP_HEARTBEAT})

Payload = bytes | bytearray | memoryview
Told = Callable[[int, Payload], None]
"""(error, answer): with error 0 the body of the response. INVALID_REQUEST: it is no such request."""


class Question(NamedTuple):
    """`body` is the request's, without its header, in `api_version`."""

    shard: int
    api_key: int
    api_version: int
    body: bytes
    client_id: str
    client_host: str

    @property
    def size(self) -> int:
        return len(self.body) + 256

    @property
    def parks(self) -> bool:
        return self.api_key in PARKED


class Asking:
    """`start` it once. The RPC client calls it with the outcome: there a new image finds it."""

    __slots__ = ("_asked", "_coordinators", "_deadline", "_error", "_loop", "_question", "_request_id", "_timer", "_told", "over")

    def __init__(self, coordinators: "Coordinators", question: Question, told: Told) -> None:
        self._coordinators = coordinators
        self._question = question
        self._told: Told | None = told
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + (HEARTBEAT_PATIENCE_S if question.api_key in HEARTBEATS else PATIENCE_S)
        self._error = NOT_COORDINATOR
        self._asked: Coordinator | None = None  # and has not answered
        self._request_id = 0
        self._timer: asyncio.TimerHandle | None = None
        self.over = False

    def start(self) -> None:
        self._ask()

    def cancel(self) -> None:
        """Nobody waits for it any more, and the owner is told."""
        self._take_back()
        self._end()

    def follow(self) -> None:
        """The image may name another owner."""
        if self._asked is None or self._coordinators.owner(self._question.shard) is self._asked:
            return
        if self._question.api_key in READS:
            self._take_back()
            self._ask()
        elif self._timer is None:
            self._timer = self._loop.call_later(LAST_WORD_S, self._give_up)

    def leave(self) -> None:
        if self._question.parks:
            self._give_up()

    # --- asking -------------------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        coordinators, question = self._coordinators, self._question
        if not coordinators.shards.count or (coordinators.leaving and question.parks):
            self._finish(NOT_COORDINATOR)
            return
        owner = coordinators.owner(question.shard)
        if owner is None:
            self._wait()
        elif not owner.client.connected:
            coordinators.connect(owner)
            self._wait()
        else:
            body = [question.shard, question.api_key, question.api_version, question.client_id, question.client_host]
            timeout_s = PARKED_S if question.parks else ANSWER_S
            try:
                self._request_id = owner.client.send(ASK, body, (question.body,), self, timeout_s=timeout_s)
            except (Overloaded, Disconnected):
                self._wait()
            else:
                self._asked = owner

    def _wait(self) -> None:
        if self._loop.time() >= self._deadline:
            self._finish(self._error)
        else:
            self._coordinators.waiting.wait(self._ask)

    def __call__(self, outcome: Response | Exception) -> None:
        self._answered()
        if isinstance(outcome, Response):
            self._hear(outcome)
        elif isinstance(outcome, RpcError) and outcome.code != TIMED_OUT:
            log.error("a group coordinator failed", extra=fields(api=self._question.api_key, error=str(outcome)))
            self._finish(UNKNOWN)
        elif self._question.api_key in READS or (isinstance(outcome, RpcFailure) and not outcome.sent):
            self._error = NOT_COORDINATOR
            self._wait()
        else:
            self._finish(NOT_COORDINATOR)

    def _hear(self, outcome: Response) -> None:
        try:
            error = 0 if outcome.body == WELL else unpack(Asked, outcome.body).error
        except ContractError as reason:
            log.error("a group coordinator answers in words of its own", extra=fields(reason=str(reason)))
            self._finish(UNKNOWN)
            return
        if error == 0:
            self._finish(0, outcome.payload)
        elif self._may_ask_again(error):
            self._error = error
            self._wait()
        else:
            self._finish(error)

    def _may_ask_again(self, error: int) -> bool:
        api_key = self._question.api_key
        if error == LOADING:
            return api_key != ApiKey.HEARTBEAT  # which is answered as if all were well: see refusals.py
        # 15 may be an append of which nobody knows whether it is in the log.
        return error == NOT_COORDINATOR or (error == UNAVAILABLE and api_key in READS)

    # --- the end ------------------------------------------------------------------------------------------------------

    def _give_up(self) -> None:
        """What was sent has no answer, and will get none."""
        self._take_back()
        self._finish(NOT_COORDINATOR)

    def _answered(self) -> None:
        self._asked = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _take_back(self) -> None:
        if self._asked is not None:
            self._asked.client.cancel(self._request_id)
        self._answered()
        self._coordinators.waiting.take_back(self._ask)

    def _finish(self, error: int, payload: Payload = b"") -> None:
        told = self._told
        self._end()
        if told is not None:
            told(error, payload)

    def _end(self) -> None:
        if not self.over:
            self.over = True
            self._told = None
            self._coordinators.over(self._question)
