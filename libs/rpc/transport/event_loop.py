"""An event loop that lets streams send at the end of an iteration, without another iteration for it.

A request from a client becomes a write to another connection, outside of that connection's turn. With `call_soon` it would leave
in the next iteration, after one more look for events: 5 µs of each hop. Here it leaves after the callbacks of this iteration,
right before the loop sleeps. It leaves together with the writes of other clients' requests to the same connection.

What goes to another service of this process (`frame_link`) is delivered before that, and so is what is answered at once: a
request and its answer take one iteration.
"""

import asyncio
import select
import selectors
from collections.abc import Callable
from typing import Final

EARLY_SENDS_MAX: Final = 24
"""The number of streams with something to send that do not wait for the last callback of the iteration. When a hundred clients
are answered, the first can go on before the last is answered."""

EVENTS_A_TURN: Final = 256
"""The most connections that have their turn before the loop looks for events and timers again."""

LINK_ROUNDS_MAX: Final = 4
"""How often links deliver in one iteration: a request, its answer, and what the answer asks of a third service."""


class Outbox:
    """The sends that are due before the loop looks for events again. On any loop but ours they run in its next iteration."""

    __slots__ = ("_deliveries", "_early_sends", "_loop", "_sent_by_loop", "_waiting", "wakeful")

    def __init__(self, loop: asyncio.AbstractEventLoop, *, sent_by_loop: bool = False) -> None:
        self._loop = loop
        self._sent_by_loop = sent_by_loop
        self._waiting: list[Callable[[], None]] = []
        self._early_sends: list[Callable[[], None]] = []
        self._deliveries: list[Callable[[], None]] = []
        self.wakeful = False
        """Whether a `send` gave the loop something to do. It sets this itself, since the loop must not sleep then."""

    def add(self, send: Callable[[], None], early_send: Callable[[], None] | None = None) -> None:
        """`send` is called once.

        If many wait, `early_send` is called before that, perhaps at once and in the turn of any connection. It must not raise,
        and it must not call back into its connection's users.
        """
        if not self._waiting and not self._sent_by_loop:
            self._loop.call_soon(self.send_all)
        self._waiting.append(send)
        if early_send is not None:
            self._early_sends.append(early_send)
            if len(self._early_sends) >= EARLY_SENDS_MAX:
                sends, self._early_sends = self._early_sends, []
                for early in sends:
                    early()

    def add_delivery(self, deliver: Callable[[], None]) -> None:
        """`deliver` is called once, before all sends. It may add deliveries and sends."""
        if not self._deliveries and not self._sent_by_loop:
            self._loop.call_soon(self.send_all)
        self._deliveries.append(deliver)

    def send_all(self) -> bool:
        """Calls all deliveries, and those that they add, then all sends. False: the loop may sleep.

        Sends that are added meanwhile wait for the next time, so that no connection can starve the others.
        """
        if not self._waiting and not self._deliveries:
            return False
        self.wakeful = bool(self._deliveries)
        rounds = 0
        while self._deliveries and rounds < LINK_ROUNDS_MAX:
            deliveries, self._deliveries = self._deliveries, []
            self._call(deliveries)
            rounds += 1
        sends, self._waiting = self._waiting, []
        self._early_sends.clear()
        self._call(sends)
        return self.wakeful or bool(self._waiting)

    def _call(self, callbacks: list[Callable[[], None]]) -> None:
        for callback in callbacks:
            try:
                callback()
            except Exception as error:
                self.wakeful = True
                self._loop.call_exception_handler({"message": "sending failed", "exception": error})


class SendingSelector(selectors.EpollSelector):
    """It sends before it looks for events, and brings a bounded number of them.

    asyncio's own brings as many as there are. When thousands of clients hang up at once, one turn would close all of them: 5,000
    with TLS took 350 ms of CPU.
    """

    outbox: Outbox

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return self.events(0 if self.outbox.send_all() else timeout)

    def events(self, timeout: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        # The kernel puts what it has brought behind the rest, so that every connection has its turn.
        found: list[tuple[int, int]] = self._selector.poll(-1 if timeout is None else timeout, EVENTS_A_TURN)  # type: ignore[attr-defined]
        keys, ready = self.get_map(), []
        for fd, event in found:
            key = keys.get(fd)
            if key is not None:
                readable = selectors.EVENT_READ if event & ~select.EPOLLOUT else 0
                writable = selectors.EVENT_WRITE if event & ~select.EPOLLIN else 0
                ready.append((key, (readable | writable) & key.events))
        return ready


class EventLoop(asyncio.SelectorEventLoop):
    """asyncio's event loop, with an outbox."""

    def __init__(self) -> None:
        selector = SendingSelector()
        self.outbox = selector.outbox = Outbox(self, sent_by_loop=True)
        super().__init__(selector)


def outbox_of(loop: asyncio.AbstractEventLoop) -> Outbox:
    """The outbox of the loop, or a new one for the caller alone where the loop has none."""
    return loop.outbox if isinstance(loop, EventLoop) else Outbox(loop)
