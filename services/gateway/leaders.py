"""Asks the leader of each partition, wherever it is, and waits for one where there is none. For what may be asked twice."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import TypeVar

from services.gateway.state import GatewayState

K = TypeVar("K", bound=Hashable)
A = TypeVar("A")

RETRY_S = 0.25


async def ask_leaders(
    gateway: GatewayState,
    partitions: Mapping[K, tuple[bytes, int]],
    ask: Callable[[int, list[K], float], Awaitable[Mapping[K, A]]],
    *,
    is_final: Callable[[A], bool],
    patience_s: float,
) -> dict[K, A]:
    """The answers by key; the last one of a partition that no leader settled in time, none if nobody answered for it.

    `partitions` tells each key's topic id and index; `ask(leader, keys, seconds)` sends one request, and answers for those keys
    that an answer came for.
    """
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
        for answered in await asyncio.gather(*[ask(leader, keys, remaining_s) for leader, keys in by_leader.items()]):
            answers.update(answered)
        open_keys = [key for key in open_keys if key not in answers or not is_final(answers[key])]
        remaining_s = deadline - clock()
        if not open_keys or remaining_s <= 0:
            break
        await gateway.wait_for_revision(image.revision + 1, min(RETRY_S, remaining_s))
    return answers
