"""Repeatable requests to the leader of each partition, wherever it is. A partition without a leader waits for one.

A leader that is replaced while it has the request is not waited for: it may be stopped or cut off, and never answer.
"""

import asyncio
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from libs.lean_dataclass import dataclass
from libs.rpc.messages.errors import RpcFailure
from libs.wire.errors import ErrorCode
from services.gateway.exchange.request_context import GatewayState, NodeUnavailable, TracedCall

K = TypeVar("K", bound=Hashable)
A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)

RETRY_S = 0.25
WATCH_S = 5.0


class LeaderAnswers(Protocol[A_co]):
    """A storage node's reply with an answer for each partition, in the order of the request."""

    @property
    def partitions(self) -> Sequence[A_co]: ...


def error_by_name(error: int) -> int:
    """The error for a client that names its topics. Leaders know topics by their ids."""
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if error == ErrorCode.UNKNOWN_TOPIC_ID else error


@dataclass(frozen=True, slots=True)
class LeaderRequest(Generic[K, A]):
    """One RPC to each leader, and the bounds of its retries."""

    method: str
    body: Callable[[list[K]], object]
    """The body for those of the keys that one node leads."""
    reply_type: type[LeaderAnswers[A]]
    is_final: Callable[[A], bool]
    """False: the leader is asked again, or the one that replaces it."""
    retry_timeout_s: float
    answer_timeout_s: float | None = None
    """The timeout of one RPC. None: what is left of `retry_timeout_s`."""
    repeats_lost: Callable[[K], bool] = lambda _: True
    """Whether the next leader is asked after one that received the request and did not answer. It may have died of it."""
    asked: Callable[[K], TracedCall | None] = lambda _: None
    """The RPC request in the trace of the client's request, by the first of its keys. None: the trace does not show it."""
    late_answer: Callable[[K], A | None] = lambda _: None
    """The answer for a leader that received the request and did not answer in time. None: there is none."""


async def ask_leaders(
    gateway: GatewayState, partitions: Mapping[K, tuple[bytes, int]], request: LeaderRequest[K, A]
) -> dict[K, A]:
    """The answers by key. A key whose answer is not final in time has its last answer, or is missing if no leader answered.

    `partitions` gives the topic id and the partition index of each key.
    """
    lost: set[K] = set()

    async def ask(leader: int, keys: list[K], timeout_s: float, asked: TracedCall | None) -> Mapping[K, A]:
        try:
            reply = await gateway.storage(
                leader,
                request.method,
                request.body(keys),
                request.reply_type,
                timeout_s=request.answer_timeout_s or timeout_s,
                asked=asked,
            )
        except NodeUnavailable as error:
            if error.sent:
                lost.update(keys)
            late = {key: request.late_answer(key) for key in keys} if error.late else {}
            return {key: answer for key, answer in late.items() if answer is not None}
        except RpcFailure:
            return {}
        return dict(zip(keys, reply.partitions, strict=True))

    clock = asyncio.get_running_loop().time
    deadline = clock() + request.retry_timeout_s
    answers: dict[K, A] = {}
    open_keys = list(partitions)
    while open_keys:
        image = gateway.image
        by_leader: dict[int, list[K]] = {}
        for key in open_keys:
            topic_id, index = partitions[key]
            state = image.partition(topic_id, index)
            if state is not None and state.leader >= 0:
                by_leader.setdefault(state.leader, []).append(key)
        remaining_s = max(deadline - clock(), RETRY_S)
        requests = {
            asyncio.create_task(ask(leader, keys, remaining_s, request.asked(keys[0]))): leader
            for leader, keys in by_leader.items()
        }
        try:
            for answer in await _collect_answers(gateway, partitions, by_leader, requests):
                answers.update(answer)
            lost.update(*[by_leader[leader] for task, leader in requests.items() if task.cancelling()])
        finally:
            for request_task in requests:
                request_task.cancel()
        open_keys = [
            key
            for key in open_keys
            if not (key in answers and request.is_final(answers[key])) and (request.repeats_lost(key) or key not in lost)
        ]
        remaining_s = deadline - clock()
        if not open_keys or remaining_s <= 0:
            break
        await gateway.wait_for_revision(image.revision + 1, min(RETRY_S, remaining_s))
    return answers


async def _collect_answers(
    gateway: GatewayState,
    partitions: Mapping[K, tuple[bytes, int]],
    by_leader: Mapping[int, list[K]],
    requests: Mapping["asyncio.Task[Mapping[K, A]]", int],
) -> list[Mapping[K, A]]:
    """The answers of the nodes that still lead one of the partitions they were asked for."""
    if requests:
        await asyncio.wait(requests, timeout=RETRY_S)
    while pending := [request_task for request_task in requests if not request_task.done() and not request_task.cancelling()]:
        image = gateway.image
        for request_task in pending:
            ids = [partitions[key] for key in by_leader[requests[request_task]]]
            states = [image.partition(topic_id, index) for topic_id, index in ids]
            if all(state is not None and state.leader != requests[request_task] for state in states):
                request_task.cancel()
        if pending := [request_task for request_task in pending if not request_task.cancelling()]:
            image_change: asyncio.Future[Any] = asyncio.ensure_future(gateway.wait_for_revision(image.revision + 1, WATCH_S))
            try:
                await asyncio.wait([*pending, image_change], return_when=asyncio.FIRST_COMPLETED)
            finally:
                image_change.cancel()
    return [request_task.result() for request_task in requests if request_task.done() and not request_task.cancelled()]
