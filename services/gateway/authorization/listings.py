"""The part of a listing of groups or transactional ids that its client may see."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from libs.wire.api_keys import ApiKey
from libs.wire.listings import Listing, entries_of, join, take_apart
from services.gateway.exchange.exchange import WrittenBody

ENTRIES_PER_TURN: Final = 200
"""How many are decided on without a break: a cluster may have a million groups."""


def shown(key: ApiKey, version: int, sees: Callable[[str], bool]) -> Callable[[Any], Coroutine[Any, Any, Any]]:
    """Leaves what the client does not see out of a handler's answer."""

    async def complete(answer: Any) -> Any:
        if not isinstance(answer, WrittenBody):
            return answer  # an error
        listing = take_apart(key, answer.body, version)
        kept: list[memoryview] = []
        for number, (name, entry) in enumerate(entries_of(key, listing, version), 1):
            if number % ENTRIES_PER_TURN == 0:
                await asyncio.sleep(0)
            if sees(name):
                kept.append(entry)
        of_client = Listing(0, len(kept), b"".join(kept))
        return WrittenBody(join(key, [of_client], version, listing.unknown_states))

    return complete
