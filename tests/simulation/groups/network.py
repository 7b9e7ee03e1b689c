"""Clients' connections to whoever owns the shard, as far as they know: requests and answers are late, lost, and come twice.

What goes over one connection stays in order. What was sent over a former one may arrive later than what is sent over the next.
"""

from collections.abc import Callable
from typing import Any, Protocol

from libs.wire.errors import ErrorCode
from services.group_coordinator.core.model.requests import RequestEvent
from tests.simulation.groups.shard_owner import Owner
from tests.simulation.groups.simulator import Simulator

NO_ANSWER = -2
"""The connection is lost, or nothing comes within the request timeout."""
Hears = Callable[[int, Any], None]
"""An error that no reply tells, or 0, and the reply."""


class Call:
    """A request, and what became of it."""

    __slots__ = ("about", "answers", "client", "connection", "done", "hears", "request", "sent_ms", "version")

    def __init__(self, client: "Link", request: Any, version: int, hears: Hears, sent_ms: int) -> None:
        self.client = client
        self.connection = client.connection
        self.request = request
        self.version = version
        self.hears = hears
        self.sent_ms = sent_ms
        self.done = False
        self.answers = 0
        self.about: Any = None
        """What `checks` noted when it arrived."""

    def again(self) -> "Call":
        """Sent once more by something between; nobody hears the answer."""
        other = Call(self.client, self.request, self.version, self.hears, self.sent_ms)
        other.done = True
        return other

    def __str__(self) -> str:
        return f"{type(self.request).__name__.removesuffix('Request')} of {self.client.name}"


class Watches(Protocol):
    def asked(self, call: Call) -> None: ...

    def answered(self, owner: Owner, call: Call, error: int, reply: Any) -> None: ...


class Link:
    """The connections of one client."""

    def __init__(self, network: "Network", name: str, *, in_order: bool) -> None:
        self.network = network
        self.name = name
        self.connection = 0
        self.owner = network.owner
        self.free_ms = 0
        """When the last request arrives that was sent before."""
        self.in_order = in_order

    def ask(self, request: Any, version: int, hears: Hears, ms_max: int = 4000) -> Call:
        call = Call(self, request, version, hears, self.network.simulator.now_ms)
        self.network.send(call)
        self.network.simulator.later(ms_max, self.network.give_up, call)
        return call

    def reset(self) -> None:
        """Another connection: nothing that was asked over the former one is answered."""
        self.connection += 1
        if not self.in_order:
            self.free_ms = 0


class Network:
    def __init__(self, simulator: Simulator, watches: Watches) -> None:
        self.simulator = simulator
        self.random = simulator.random
        self.watches = watches
        self.owner: Owner | None = None
        self.late_ms = 0.0
        self.loss = 0.0
        self.twice = 0.0
        self.kills = 0.0
        """How often an owner dies of its answer."""
        self.on_kill: Callable[[], None] = lambda: None
        self.asked = 0
        self.answered = 0
        self._fresh = 0

    def send(self, call: Call) -> None:
        line, random = call.client, self.random
        at_ms = max(self.simulator.now_ms + int(self._takes_ms()), line.free_ms + 1)
        line.free_ms = at_ms
        if self.loss and random.random() < self.loss:
            return
        self.simulator.later(at_ms - self.simulator.now_ms, self._arrive, call)
        # No gateway sends a ConsumerGroupHeartbeat twice: one of its answers would tell a client what the other does not.
        if self.twice and not line.in_order and random.random() < self.twice:
            line.free_ms += 1
            self.simulator.later(line.free_ms - self.simulator.now_ms, self._arrive, call.again())

    def _takes_ms(self) -> float:
        return 1 + (self.late_ms * self.random.random() ** 4 if self.late_ms else 0)

    def _arrive(self, call: Call) -> None:
        owner = call.client.owner
        if owner is None or owner.dead:
            if not call.done:
                self.simulator.later(1, self._hears, call, int(ErrorCode.COORDINATOR_NOT_AVAILABLE), None)
            return
        self.asked += 1
        self._fresh += 1
        self.watches.asked(call)
        self.simulator.note(owner, "is asked:", call.request)
        asked = RequestEvent(call.request, call.version, call.client.name, "/127.0.0.1", f"id{self._fresh}")
        owner.submit(asked, call)

    def answer(self, owner: Owner, call: Call, error: int, reply: Any) -> None:
        """From the owner, at this moment."""
        self.answered += 1
        self.simulator.note(owner, "answers", call, error or reply)
        self.watches.answered(owner, call, error, reply)
        if not self.loss or self.random.random() >= self.loss:
            self.simulator.later(self._takes_ms(), self._hears, call, error, reply)
        if self.kills and self.random.random() < self.kills:
            owner.kill()
            self.on_kill()

    def give_up(self, call: Call) -> None:
        if not call.done:
            if call.connection == call.client.connection:
                call.client.reset()
            self._end(call, NO_ANSWER, None)

    def _hears(self, call: Call, error: int, reply: Any) -> None:
        if not call.done and call.connection == call.client.connection:
            self._end(call, error, reply)

    def _end(self, call: Call, error: int, reply: Any) -> None:
        call.done = True
        call.hears(error, reply)

    def broken(self, call: Call) -> None:
        """Its client notices."""
        if not call.done:
            self._end(call, NO_ANSWER, None)
