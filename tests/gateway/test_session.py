"""The order of requests and answers on one connection."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from services.gateway.core.request_budget import RequestBudget
from services.gateway.core.session import Session, SessionLimits, Turn

LIMITS = SessionLimits(requests_max=8, bytes_max=1000)


class Request(Turn):
    __slots__ = ("number",)

    def __init__(self, number: int, pipelined: bool, size: int = 1) -> None:
        super().__init__(pipelined, size)
        self.number = number


def drive(kinds: Sequence[bool], choices: Sequence[int]) -> tuple[list[int], list[int]]:
    """Arrives with all of `kinds`, and answers running requests in the order of `choices`. Returns the numbers begun and left."""
    session: Session[Request] = Session(SessionLimits(10_000, 10**9), RequestBudget(1 << 30, 0))
    running: list[Request] = []
    begun: list[int] = []
    left: list[int] = []

    def begin(request: Request) -> None:
        # The rule: one request at a time, except that Produces may run together.
        assert not running or (request.pipelined and all(other.pipelined for other in running))
        running.append(request)
        begun.append(request.number)

    picks = iter(choices)
    for number, pipelined in enumerate(kinds):
        request = Request(number, pipelined)
        if session.arrive(request):
            begin(request)
        pick = next(picks, 0)
        if pick % 3 == 0 and running:
            finish(session, running, left, pick)
            while (following := session.begin_next()) is not None:
                begin(following)
    while running:
        finish(session, running, left, next(picks, 0))
        while (following := session.begin_next()) is not None:
            begin(following)
    assert session.idle
    return begun, left


def finish(session: Session[Request], running: list[Request], left: list[int], pick: int) -> None:
    request = running.pop(pick % len(running))
    left.extend(turn.number for turn in session.answer(request, f"answer {request.number}"))


@given(st.lists(st.booleans(), max_size=40), st.lists(st.integers(0, 1000), max_size=80))
def test_answers_leave_in_request_order_whatever_completes_first(kinds: list[bool], choices: list[int]) -> None:
    begun, left = drive(kinds, choices)
    assert begun == list(range(len(kinds)))
    assert left == list(range(len(kinds)))


def test_produces_run_together_and_a_fetch_waits_for_them() -> None:
    session: Session[Request] = Session(LIMITS, RequestBudget(1 << 30, 0))
    first, second, fetch, third = Request(0, True), Request(1, True), Request(2, False), Request(3, True)
    assert session.arrive(first)
    assert session.arrive(second)
    assert not session.arrive(fetch)
    assert not session.arrive(third), "a Produce behind a waiting Fetch may not overtake it"
    assert session.answer(second, "b") == []
    assert session.answer(first, "a") == [first, second]
    assert session.begin_next() is fetch
    assert session.begin_next() is None
    assert session.answer(fetch, "f") == [fetch]
    assert session.begin_next() is third


def test_too_many_requests_are_back_pressure_until_half_are_gone() -> None:
    session: Session[Request] = Session(LIMITS, RequestBudget(1 << 30, 0))
    requests = [Request(number, True) for number in range(8)]
    for request in requests:
        assert not session.congested
        session.arrive(request)
    assert session.congested
    for request in requests[:3]:
        session.answer(request, "")
    assert not session.congested
    assert not session.relieved
    session.answer(requests[3], "")
    assert session.relieved


def test_too_many_bytes_are_back_pressure_but_one_large_request_is_served() -> None:
    session: Session[Request] = Session(LIMITS, RequestBudget(1 << 30, 0))
    large = Request(0, True, size=5000)
    assert session.arrive(large)
    assert session.congested
    assert session.answer(large, "") == [large]
    assert session.relieved


def test_nothing_begins_while_the_client_leaves_its_answers_unread() -> None:
    session: Session[Request] = Session(LIMITS, RequestBudget(1 << 30, 0))
    session.output_blocked = True
    waiting = Request(0, True)
    assert not session.arrive(waiting)
    assert session.begin_next() is None
    session.output_blocked = False
    assert session.begin_next() is waiting
