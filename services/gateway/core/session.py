"""The requests of one client connection: which of them may begin, and the order of their answers. No I/O.

A connection executes one request at a time, as in Kafka, except that consecutive Produces are pipelined. Answers leave in the
order of the requests, whatever the order in which they become known.

The calls for each request, in order: `arrive` (begin it if True), later `answer` (send the turns that it returns, in order), then
`begin_next` until it returns None. A request that must not begin yet is given back by `postpone`.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

from libs.lean_dataclass import dataclass
from services.gateway.core.request_budget import RequestBudget


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """The requests that one connection may have outstanding before its input is no longer read.

    The bounds are checked after a read, so the requests of one read may exceed them.
    """

    requests_max: int = 256
    bytes_max: int = 32 * 1024 * 1024


class Turn:
    """One request's place in the order, or that of a run. `size` is the memory that it holds until it is answered."""

    __slots__ = ("answer", "answered", "pipelined", "requests", "size")

    def __init__(self, pipelined: bool, size: int) -> None:
        self.pipelined = pipelined
        self.size = size
        self.requests = 1
        """More: others have joined it, and have the same place until they are parted."""
        self.answered = False
        self.answer: object = None


T = TypeVar("T", bound=Turn)


class Session(Generic[T]):
    """The outstanding requests of one connection.

    The connection sets `output_blocked` while its client does not read the answers. Then no further request begins.

    All sessions share the `budget`. `end` is the last call, and takes what is outstanding out of it.
    """

    __slots__ = ("_budget", "_joined", "_limits", "_running", "_waiting", "bytes", "held", "output_blocked")

    def __init__(self, limits: SessionLimits, budget: RequestBudget[Any]) -> None:
        self._limits = limits
        self._budget = budget
        self._running: deque[T] = deque()
        self._waiting: deque[T] = deque()
        self._joined = 0
        """The outstanding requests that have no turn of their own, since they have joined another's."""
        self.bytes = 0
        """Bytes of the outstanding requests."""
        self.output_blocked = False
        self.held = False
        """A quota keeps further requests from beginning."""

    def arrive(self, turn: T) -> bool:
        """Adds a request. True: begin it now. False: it waits, and `begin_next` will return it."""
        self.bytes += turn.size
        self._budget.used += turn.size
        if not self._waiting and self._may_begin(turn):
            self._running.append(turn)
            return True
        self._waiting.append(turn)
        self._budget.queued += 1
        return False

    def answer(self, turn: T, answer: object) -> list[T]:
        """The turns whose answers leave now, in order. There are none while an earlier request is unanswered."""
        turn.answer = answer
        turn.answered = True
        running = self._running
        if running[0] is not turn:
            return []
        leaving: list[T] = []
        while running and running[0].answered:
            head = running.popleft()
            self.bytes -= head.size
            self._budget.used -= head.size
            self._joined -= head.requests - 1
            leaving.append(head)
        return leaving

    def may_join(self, turn: T) -> bool:
        """Whether a request that arrives now would begin at once, and directly behind this pipelined one."""
        if self._waiting or self.output_blocked or self.held or turn.answered:
            return False
        return bool(self._running) and self._running[-1] is turn

    def join(self, turn: T, size: int) -> None:
        """Adds a request to a turn that `may_join` allows. The answer of that turn is for both."""
        turn.size += size
        turn.requests += 1
        self.bytes += size
        self._budget.used += size
        self._joined += 1

    def part(self, turn: T, turns: Sequence[T]) -> None:
        """Gives each request that has joined an unanswered turn a turn of its own, behind it."""
        at = self._running.index(turn) + 1
        for place, parted in enumerate(turns, at):
            self._running.insert(place, parted)
            turn.size -= parted.size
        turn.requests -= len(turns)
        self._joined -= len(turns)

    def end(self) -> None:
        """Forgets what is outstanding, and its frames."""
        self._budget.used -= self.bytes
        self._budget.queued -= len(self._waiting)
        self.bytes = self._joined = 0
        self._running.clear()
        self._waiting.clear()

    def begin_next(self) -> T | None:
        """The next waiting request that may begin, which counts as running from now on."""
        if not self._waiting or not self._may_begin(self._waiting[0]):
            return None
        turn = self._waiting.popleft()
        self._budget.queued -= 1
        self._running.append(turn)
        return turn

    def postpone(self, turn: T) -> None:
        """The request that was to begin last waits again, before all others. Set `held`, and call `begin_next` after it."""
        assert self._running[-1] is turn, "only the last one has not begun"
        self._waiting.appendleft(self._running.pop())
        self._budget.queued += 1

    def is_only_request(self, turn: T) -> bool:
        """Whether no other request runs, so that doing it again overtakes nothing."""
        return len(self._running) == 1 and self._running[0] is turn

    def outstanding(self) -> Iterator[T]:
        """All outstanding requests, oldest first: those running (some already answered), then those waiting."""
        yield from self._running
        yield from self._waiting

    def leaves_next(self, turn: T, behind: T | None) -> bool:
        """Whether a running turn is the first, or directly behind another one."""
        running = self._running
        at = 0 if behind is None else running.index(behind) + 1
        return at < len(running) and running[at] is turn

    @property
    def requests(self) -> int:
        """The number of outstanding requests."""
        return len(self._running) + len(self._waiting) + self._joined

    @property
    def first_running(self) -> T | None:
        return self._running[0] if self._running else None

    @property
    def first_waiting(self) -> T | None:
        return self._waiting[0] if self._waiting else None

    @property
    def congested(self) -> bool:
        """Back-pressure: the connection must stop reading from the client."""
        limits = self._limits
        return self.bytes >= limits.bytes_max or self.requests >= limits.requests_max

    @property
    def relieved(self) -> bool:
        """The connection may read again. The bound is half of the other, so that a busy connection does not alternate at it."""
        limits = self._limits
        return self.bytes * 2 <= limits.bytes_max and self.requests * 2 <= limits.requests_max

    @property
    def idle(self) -> bool:
        return not self._running and not self._waiting

    def _may_begin(self, turn: T) -> bool:
        if self.output_blocked or self.held:
            return False
        running = self._running
        # Either one request of any kind runs, or only Produces do. The last one tells which.
        return not running or (turn.pipelined and running[-1].pipelined)
