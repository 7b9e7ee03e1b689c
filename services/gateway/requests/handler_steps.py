"""The steps of a request's handler: what the event loop runs of it between two waits."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any

from services.gateway.exchange.exchange import Exchange
from services.gateway.requests.client_quotas import ClientQuotas


async def in_steps(handling: Callable[[], Coroutine[Any, Any, None]], exchange: Exchange, quotas: ClientQuotas) -> None:
    """Awaits the handler of a request. Notes when it first waits for another process, and counts the time of each step where a
    quota limits that."""
    await _Steps(handling(), exchange, quotas)


class _Steps:
    def __init__(self, coroutine: Coroutine[Any, Any, None], exchange: Exchange, quotas: ClientQuotas) -> None:
        self._coroutine = coroutine
        self._exchange = exchange
        self._quotas = quotas
        self._now = asyncio.get_running_loop().time

    def __await__(self) -> Generator[Any, Any, None]:
        exchange, quotas = self._exchange, self._quotas
        thrown: BaseException | None = None
        while True:
            if quotas.counts_time(exchange):
                quotas.works(exchange, quotas.busy_now())
            try:
                awaited = self._coroutine.send(None) if thrown is None else self._coroutine.throw(thrown)
            except StopIteration:
                return
            finally:
                quotas.rests(exchange)
            exchange.note_asked(self._now())
            try:
                yield awaited
                thrown = None
            except BaseException as error:
                thrown = error
