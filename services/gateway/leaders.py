"""Asks the leader of each partition, wherever it is, and waits for one where there is none. For what may be asked twice.

One that another replaces while it is asked is not waited for: it may be stopped, or cut off, and never answer.
"""

import asyncio
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from libs.rpc.errors import RpcFailure
from libs.wire.errors import ErrorCode
from services.gateway.state import GatewayState, NodeUnavailable

K = TypeVar("K", bound=Hashable)
A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)

RETRY_S = 0.25
WATCH_S = 5.0


class Answers(Protocol[A_co]):
    """A storage node's reply, with an answer for each partition, in the order of the request."""

    @property
    def partitions(self) -> Sequence[A_co]: ...


def error_by_name(error: int) -> int:
    """As a client hears it that names its topics: leaders know them by their ids."""
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if error == ErrorCode.UNKNOWN_TOPIC_ID else error


async def ask_leaders(
    gateway: GatewayState,
    partitions: Mapping[K, tuple[bytes, int]],
    method: str,
    request: Callable[[list[K]], object],
    reply_type: type[Answers[A]],
    *,
    is_final: Callable[[A], bool],
    patience_s: float,
    answer_s: float | None = None,
) -> dict[K, A]:
    """The answers by key; the last one of a partition that no leader settled in time, none if nobody answered for it.

    `partitions` tells each key's topic id and index, `request` what a leader is asked for those keys. An answer may take as long
    as the patience lasts, or `answer_s`.
    """

    async def ask(leader: int, keys: list[K], timeout_s: float) -> Mapping[K, A]:
        try:
            reply = await gateway.storage(leader, method, request(keys), reply_type, timeout_s=answer_s or timeout_s)
        except (NodeUnavailable, RpcFailure):
            return {}
        return dict(zip(keys, reply.partitions, strict=True))

    clock = asyncio.get_running_loop().time
    deadline = clock() + patience_s
    answers: dict[K, A] = {}
    open_keys = list(partitions)
    while open_keys:
        image = gateway.image
        by_leader: dict[int, list[K]] = {}
        for key in open_keys:
            state = image.partition(*partitions[key])
            if state is not None and state.leader >= 0:
                by_leader.setdefault(state.leader, []).append(key)
        remaining_s = max(deadline - clock(), RETRY_S)
        asked = {asyncio.create_task(ask(leader, keys, remaining_s)): leader for leader, keys in by_leader.items()}
        try:
            for answered in await _answered(gateway, partitions, by_leader, asked):
                answers.update(answered)
        finally:
            for asking in asked:
                asking.cancel()
        open_keys = [key for key in open_keys if key not in answers or not is_final(answers[key])]
        remaining_s = deadline - clock()
        if not open_keys or remaining_s <= 0:
            break
        await gateway.wait_for_revision(image.revision + 1, min(RETRY_S, remaining_s))
    return answers


async def _answered(
    gateway: GatewayState,
    partitions: Mapping[K, tuple[bytes, int]],
    by_leader: Mapping[int, list[K]],
    asked: Mapping["asyncio.Task[Mapping[K, A]]", int],
) -> list[Mapping[K, A]]:
    """What those have answered who still lead something of what they were asked for."""
    if asked:
        await asyncio.wait(asked, timeout=RETRY_S)
    while pending := [asking for asking in asked if not asking.done() and not asking.cancelling()]:
        image = gateway.image
        for asking in pending:
            states = [image.partition(*partitions[key]) for key in by_leader[asked[asking]]]
            if all(state is not None and state.leader != asked[asking] for state in states):
                asking.cancel()
        if pending := [asking for asking in pending if not asking.cancelling()]:
            news: asyncio.Future[Any] = asyncio.ensure_future(gateway.wait_for_revision(image.revision + 1, WATCH_S))
            try:
                await asyncio.wait([*pending, news], return_when=asyncio.FIRST_COMPLETED)
            finally:
                news.cancel()
    return [asking.result() for asking in asked if asking.done() and not asking.cancelled()]
