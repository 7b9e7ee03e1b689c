"""Appends of several shards that leave in one request, and what each of them hears."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from libs.cluster.records import InSync
from libs.coordinator.log import joined_appends
from libs.coordinator.log.internal_log import Outcome, Refused, Stored, Unknown
from libs.coordinator.log.joined_appends import JOINED_BYTES_MAX, JOINED_MAX, JoinedAppends, PutAppend, Route
from libs.rpc.client.rpc_client import Hello, OnReply, Response
from libs.rpc.contracts.storage import Append, Appended, AppendReply
from libs.rpc.messages.envelope import EMPTY
from libs.rpc.messages.errors import Disconnected, Overloaded
from libs.rpc.messages.schema import pack, unpack
from libs.telemetry.tracing.ids import SentRequest
from libs.telemetry.tracing.rpc_context import unpack_contexts
from libs.telemetry.tracing.span import SpanContext

ISR = frozenset((InSync(1, 7), InSync(2, 7)))


@dataclass
class Sent:
    append: Append
    payload: list[bytes]
    on_reply: OnReply
    contexts: list[tuple[int, SpanContext]]

    def answer(self, *answers: Appended) -> None:
        self.on_reply(Response(pack(AppendReply(answers)), EMPTY, ()))


@dataclass(eq=False)
class Leader:
    """The client of a storage node that keeps requests, to be answered by the test."""

    sent: list[Sent] = field(default_factory=list)
    cancelled: list[int] = field(default_factory=list)
    refuses: bool = False
    peer = Hello("storage", 3, 9, "1", 1)

    def send(self, method: str, body: object, payload: Any, on_reply: OnReply, *, timeout_s: float, trace: bytes | None) -> int:
        if self.refuses:
            raise Overloaded("full")
        assert timeout_s == 5.0 + joined_appends.ANSWER_S_MAX
        self.sent.append(Sent(unpack(Append, body), list(payload), on_reply, unpack_contexts(trace)))
        return len(self.sent)

    def cancel(self, request_id: int) -> None:
        self.cancelled.append(request_id)


class Shards:
    """Shards that append, and what they have heard."""

    def __init__(self, leader: Leader) -> None:
        self.appends = JoinedAppends()
        self.leader = leader
        self.heard: dict[int, Outcome] = {}

    def put(
        self,
        shard: int,
        batch: bytes | None = None,
        *,
        isr: frozenset[InSync] = ISR,
        then: Callable[[], object] = lambda: None,
        traces: tuple[SpanContext, ...] = (),
    ) -> PutAppend:
        batch = b"batch %d" % shard if batch is None else batch
        part: list[object] = [bytes(16), shard, 4, len(batch), 5, 6, 100 + shard]

        def on_result(outcome: Outcome) -> None:
            self.heard[shard] = outcome
            then()

        return self.appends.put(Route(self.leader, isr, 5000), part, batch, on_result, traces)  # type: ignore[arg-type]

    def sent(self) -> list[list[int]]:
        """The shards of each request."""
        return [[part.partition for part in sent.append.partitions] for sent in self.leader.sent]


async def test_appends_of_a_turn_leave_in_one_request_at_its_end() -> None:
    shards = Shards(leader := Leader())
    with shards.appends:
        shards.put(1)
        shards.put(2)
        assert not leader.sent
    [sent] = leader.sent
    assert sent.payload == [b"batch 1", b"batch 2"]
    assert sent.append.joined
    assert [(part.partition, part.length, part.expected_offset) for part in sent.append.partitions] == [(1, 7, 101), (2, 7, 102)]
    sent.answer(Appended(0, 101), Appended(0, 102))
    assert shards.heard == {1: Stored(101), 2: Stored(102)}


async def test_an_append_outside_of_a_turn_leaves_at_once() -> None:
    shards = Shards(leader := Leader())
    shards.put(1)
    with shards.appends:
        shards.put(2)
    assert shards.sent() == [[1], [2]]
    assert not any(sent.append.joined for sent in leader.sent)


async def test_each_hears_its_own_outcome() -> None:
    shards = Shards(leader := Leader())
    with shards.appends:
        for shard in range(4):
            shards.put(shard)
    leader.sent[0].answer(Appended(0, 100), Appended(74), Appended(7), Appended(0, 103))
    assert shards.heard[0] == Stored(100)
    assert shards.heard[1] == Refused(74)
    assert isinstance(shards.heard[2], Unknown)  # REQUEST_TIMED_OUT: it is in the log, and may be committed
    assert shards.heard[3] == Stored(103)


async def test_an_answer_about_another_number_of_batches_says_nothing() -> None:
    shards = Shards(leader := Leader())
    with shards.appends:
        shards.put(1)
        shards.put(2)
    leader.sent[0].answer(Appended(0, 101))
    assert [type(outcome) for outcome in shards.heard.values()] == [Unknown, Unknown]


@pytest.mark.parametrize(("was_sent", "outcome"), [(False, Refused), (True, Unknown)])
async def test_all_of_a_request_hear_that_it_failed(was_sent: bool, outcome: type) -> None:
    shards = Shards(leader := Leader())
    with shards.appends:
        shards.put(1)
        shards.put(2)
    leader.sent[0].on_reply(Disconnected("gone", sent=was_sent))
    assert [type(heard) for heard in shards.heard.values()] == [outcome, outcome]


async def test_all_of_a_request_that_cannot_be_sent_hear_it_soon() -> None:
    shards = Shards(Leader(refuses=True))
    with shards.appends:
        shards.put(1)
        shards.put(2).cancel()
    assert not shards.heard
    await asyncio.sleep(0)
    assert shards.heard == {1: Refused(6)}


async def test_only_appends_that_commit_by_the_same_replicas_leave_together() -> None:
    shards, others = Shards(leader := Leader()), Leader()
    with shards.appends:
        shards.put(1)
        shards.put(2, isr=frozenset((InSync(1, 7),)))
        shards.put(3)
        shards.leader = others
        shards.put(4)
    shards.leader = leader
    assert shards.sent() == [[1, 3], [2]]
    shards.leader = others
    assert shards.sent() == [[4]]


async def test_a_large_batch_a_question_and_a_traced_append_have_requests_of_their_own() -> None:
    shards, context = Shards(leader := Leader()), SpanContext(1, 2)
    with shards.appends:
        shards.put(1)
        shards.put(2, b"")
        shards.put(3, bytes(JOINED_BYTES_MAX + 1))
        shards.put(4, traces=(context,))
        shards.put(5, bytes(JOINED_BYTES_MAX))
    assert shards.sent() == [[2], [3], [4], [1, 5]]
    assert [sent.contexts for sent in leader.sent] == [[], [], [(0, context)], []]


async def test_a_request_has_a_bounded_number_of_batches() -> None:
    shards = Shards(Leader())
    with shards.appends:
        for shard in range(JOINED_MAX + 2):
            shards.put(shard)
    assert [len(request) for request in shards.sent()] == [JOINED_MAX, 2]


async def test_what_an_answer_makes_shards_append_leaves_together_too() -> None:
    shards = Shards(leader := Leader())
    with shards.appends:
        shards.put(1, then=lambda: shards.put(1))
        shards.put(2, then=lambda: shards.put(2))
    leader.sent[0].answer(Appended(0, 101), Appended(0, 102))
    assert shards.sent() == [[1, 2], [1, 2]]


async def test_a_cancelled_append_hears_nothing_and_the_others_do() -> None:
    shards = Shards(leader := Leader())
    with shards.appends:
        shards.put(1).cancel()
        second = shards.put(2)
        third = shards.put(3)
    assert shards.sent() == [[2, 3]]
    second.cancel()
    assert not leader.cancelled, "the third still waits"
    leader.sent[0].answer(Appended(0, 102), Appended(0, 103))
    assert shards.heard == {3: Stored(103)}
    third.cancel()
    assert not leader.cancelled


async def test_the_leader_hears_when_nobody_waits_for_a_request_any_more() -> None:
    shards = Shards(leader := Leader())
    with shards.appends:
        appends = [shards.put(1), shards.put(2)]
    for append in appends:
        append.cancel()
    assert leader.cancelled == [1]


async def test_a_shard_that_fails_at_its_outcome_does_not_harm_the_others(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise RuntimeError("planted")

    shards = Shards(leader := Leader())
    with shards.appends:
        shards.put(1, then=fail)
        shards.put(2)
    leader.sent[0].answer(Appended(0, 101), Appended(0, 102))
    assert shards.heard[2] == Stored(102)
    assert "an append's outcome was not taken" in caplog.text


async def test_shards_whose_answer_was_late_go_alone_until_one_is_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    shards, now = Shards(leader := Leader()), 100.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)

    def turn() -> list[list[int]]:
        before = len(leader.sent)
        with shards.appends:
            for shard in (1, 2, 3, 4):
                shards.put(shard)
        return shards.sent()[before:]

    with shards.appends:
        shards.put(1)
        shards.put(2)
    now += joined_appends.LATE_S * 1.1
    leader.sent[0].answer(Appended(0, 101), Appended(0, 102))
    assert turn() == [[1], [2], [3, 4]]
    leader.sent[2].answer(Appended(0, 102))
    now += joined_appends.LATE_S * 1.1
    leader.sent[1].answer(Appended(0, 101))  # it was the first that was slow, and still is
    assert turn() == [[1], [2, 3, 4]]
    leader.sent[-2].answer(Appended(0, 101))
    assert turn() == [[1, 2, 3, 4]]


async def test_shards_keep_no_batches_once_they_are_sent() -> None:
    """A shard keeps its last append until its next one, which may be days later."""
    shards = Shards(leader := Leader())
    with shards.appends:
        appends = [shards.put(1), shards.put(2), shards.put(3, bytes(JOINED_BYTES_MAX + 1))]
        leader.refuses = True
    assert [append.batch for append in appends] == [b"", b"", b""]
    assert [len(batch) for batch in leader.sent[0].payload] == [JOINED_BYTES_MAX + 1]


async def test_an_append_knows_its_place_in_the_request_for_its_trace() -> None:
    shards = Shards(Leader())
    with shards.appends:
        appends = [shards.put(1), shards.put(2)]
        assert [append.sent for append in appends] == [None, None]
    server = "storage-3-9"
    assert [append.sent for append in appends] == [SentRequest(server, 1, 0), SentRequest(server, 1, 1)]
