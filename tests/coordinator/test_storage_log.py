"""Requests of a shard's log to the storage node that leads its partition."""

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.image import ClusterImage
from libs.cluster.records import InSync, PartitionState, Replica
from libs.cluster.store import WatchBatch, WatchEvent
from libs.coordinator.core.decisions import KeyValue
from libs.coordinator.core.shard import Fence, PlannedAppend
from libs.coordinator.log.append_outcomes import IN_LOG, outcomes
from libs.coordinator.log.internal_log import Refused, Stored, Unknown
from libs.coordinator.log.joined_appends import ANSWER_S_MAX, JoinedAppends
from libs.coordinator.log.storage_log import APPEND_MS_MAX, StorageLog
from libs.rpc.client.rpc_client import OnReply, Response
from libs.rpc.contracts.storage import Append, Appended, AppendPartition, AppendReply
from libs.rpc.messages.envelope import EMPTY
from libs.rpc.messages.schema import pack, unpack
from libs.telemetry.tracing.rpc_context import Indexed, unpack_contexts

TOPIC_ID = bytes(15) + b"\1"


class FakeLeader:
    """A storage node's client, and what finds it."""

    def __init__(self) -> None:
        self.asked: list[tuple[Append, float]] = []
        self.traces: list[list[Indexed]] = []

    def client(self, node_id: int) -> "FakeLeader":
        return self

    def send(self, method: str, body: object, payload: Any, on_reply: OnReply, *, timeout_s: float, trace: bytes | None) -> int:
        self.traces.append(unpack_contexts(trace))
        self.asked.append((unpack(Append, body), timeout_s))
        on_reply(Response(pack(AppendReply((Appended(0, 7),))), EMPTY, ()))
        return 1

    def cancel(self, request_id: int) -> None: ...


def image() -> ClusterImage:
    state = PartitionState((Replica(1, ""),), 1, 1, 0, 0, (InSync(1, 1),))
    event = WatchEvent(keys.partition(TOPIC_ID, 0), encode(state), 1, 1)
    return ClusterImage().apply(WatchBatch((event,), 1))


async def test_an_append_may_take_as_long_as_is_said_now() -> None:
    """`offsets.commit.timeout.ms` may change while a shard is served."""
    leader, now = FakeLeader(), [5000]
    log = StorageLog(TOPIC_ID, 0, image, leader, JoinedAppends(), append_ms_max=lambda: now[0])  # type: ignore[arg-type]
    planned = PlannedAppend(Fence(0, 1, 1), 0, [KeyValue(b"k", b"v")])
    reported: list[object] = []
    log.append(planned, 1, reported.append)
    now[0] = 250
    log.append(planned, 1, reported.append)
    assert reported == [Stored(7), Stored(7)]
    assert [(append.timeout_ms, timeout_s) for append, timeout_s in leader.asked] == [
        (5000, 5 + ANSWER_S_MAX),
        (250, 0.25 + ANSWER_S_MAX),
    ]


async def test_an_append_has_a_bound_where_nobody_says_one() -> None:
    leader = FakeLeader()
    log = StorageLog(TOPIC_ID, 0, image, leader, JoinedAppends())  # type: ignore[arg-type]
    log.append(PlannedAppend(Fence(0, 1, 1), 0, []), 1, lambda _: None)
    assert [append.timeout_ms for append, _ in leader.asked] == [APPEND_MS_MAX]


async def test_an_append_is_what_the_contract_says() -> None:
    leader = FakeLeader()
    log = StorageLog(TOPIC_ID, 0, image, leader, JoinedAppends())  # type: ignore[arg-type]
    log.append(PlannedAppend(Fence(0, 3, 4), 5, []), 1, lambda _: None)
    assert leader.asked[0][0] == Append(-1, APPEND_MS_MAX, (AppendPartition(TOPIC_ID, 0, 0, 0, 3, 4, 5),))


async def test_an_append_to_a_leader_that_moved_is_refused_soon_unless_nobody_waits() -> None:
    leader, reported = FakeLeader(), list[object]()
    log = StorageLog(TOPIC_ID, 0, image, leader, JoinedAppends())  # type: ignore[arg-type]
    planned = PlannedAppend(Fence(9, 1, 1), 0, [])
    log.append(planned, 1, reported.append)
    log.append(planned, 1, reported.append)()
    assert not reported
    await asyncio.sleep(0)
    assert reported == [Refused(6)]
    assert not leader.asked


NUMBERS = st.integers(-1, 16) | st.integers(-(1 << 63), (1 << 63) - 1)
APPENDED = st.builds(Appended, st.just(0) | NUMBERS, NUMBERS, message=st.none() | st.text(max_size=3), in_log=st.booleans())
NONSENSE = st.recursive(st.none() | st.booleans() | st.text(max_size=2), lambda inner: st.lists(inner, max_size=3))


def heard(answer: list[object]) -> object:
    (outcome,) = outcomes(Response(answer, EMPTY, ()), 1)
    return outcome


@settings(deadline=None)
@given(APPENDED)
def test_an_answer_means_what_the_contract_says(appended: Appended) -> None:
    outcome = heard(pack(AppendReply((appended,))))
    if appended.error == 0:
        assert outcome == Stored(appended.base_offset)
    elif appended.in_log or appended.error in IN_LOG:
        assert isinstance(outcome, Unknown)
    else:
        assert outcome == Refused(appended.error)


@settings(deadline=None)
@given(
    st.lists(NONSENSE, max_size=2) | st.lists(APPENDED, min_size=2, max_size=3).map(lambda many: pack(AppendReply(tuple(many))))
)
def test_an_answer_that_is_none_leaves_the_outcome_unknown(answer: list[object]) -> None:
    assert isinstance(heard(answer), Unknown)
