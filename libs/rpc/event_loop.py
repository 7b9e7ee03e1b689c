"""An event loop that lets streams send at the end of an iteration, without another iteration for it.

A request from a client becomes a write to another connection, outside of that one's turn. With `call_soon` it would leave in the
next iteration, after one more look for events: 5 µs of each hop. Here it leaves after the callbacks of this iteration, right
before the loop sleeps, together with what other clients' requests wrote to the same connection.
"""

import asyncio
import selectors
from collections.abc import Callable
from typing import Final

EARLY: Final = 24
"""Streams with something to send: so many do not wait for the last callback of the iteration. Of a hundred clients that are
answered, the first goes on while the last is being answered."""


class Outbox:
    """What is to be sent before the loop looks for events again. On any other loop than ours: in its next iteration."""

    __slots__ = ("_early", "_loop", "_sent_by_loop", "_waiting", "wakeful")

    def __init__(self, loop: asyncio.AbstractEventLoop, *, sent_by_loop: bool = False) -> None:
        self._loop = loop
        self._sent_by_loop = sent_by_loop
        self._waiting: list[Callable[[], None]] = []
        self._early: list[Callable[[], None]] = []
        self.wakeful = False
        """To be set by a `send` that gave the loop something to do: it must not sleep then."""

    def add(self, send: Callable[[], None], early: Callable[[], None] | None = None) -> None:
        """`send` will be called once. `early`, if many wait, before that, perhaps at once and in anybody's turn: it must raise
        nothing and call nobody."""
        if not self._waiting and not self._sent_by_loop:
            self._loop.call_soon(self.send_all)
        self._waiting.append(send)
        if early is not None:
            self._early.append(early)
            if len(self._early) >= EARLY:
                sends, self._early = self._early, []
                for send_early in sends:
                    send_early()

    def send_all(self) -> bool:
        """What is added meanwhile waits for the next time, so that no connection can starve the others. False: the loop may
        sleep."""
        if not self._waiting:
            return False
        sends, self._waiting = self._waiting, []
        self._early.clear()
        self.wakeful = False
        for send in sends:
            try:
                send()
            except Exception as error:
                self.wakeful = True
                self._loop.call_exception_handler({"message": "sending failed", "exception": error})
        return self.wakeful or bool(self._waiting)


class _SendingSelector(selectors.EpollSelector):
    outbox: Outbox

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(0 if self.outbox.send_all() else timeout)


class EventLoop(asyncio.SelectorEventLoop):
    """asyncio's own, with an outbox."""

    def __init__(self) -> None:
        selector = _SendingSelector()
        self.outbox = selector.outbox = Outbox(self, sent_by_loop=True)
        super().__init__(selector)


def outbox_of(loop: asyncio.AbstractEventLoop) -> Outbox:
    """The loop's own, or one for the caller alone."""
    return loop.outbox if isinstance(loop, EventLoop) else Outbox(loop)
