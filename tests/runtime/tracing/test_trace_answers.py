"""A gateway stitches a trace of what all processes keep of it, and names those that do not answer."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.image import ClusterImage
from libs.cluster.records import GATEWAY, STORAGE, Member
from libs.cluster.store import KeyValue, RangeResult
from libs.rpc.client.rpc_client import RpcClient
from libs.rpc.contracts.traces import TRACES, AskTraces
from libs.rpc.messages.envelope import Hello
from libs.rpc.server.call import Call
from libs.rpc.server.rpc_server import RpcServer
from libs.rpc.transport.socket_transport import SocketTransport
from libs.runtime.admin import NotShown, WithPage
from libs.runtime.tracing import trace_answers
from libs.runtime.tracing.trace_answers import WAITING_MAX, OtherProcesses, TraceLending, TraceViews
from libs.telemetry.tracing.trace_ring import TraceRing
from tests.runtime.tracing.kept_spans import TRACE_ID, gateway_spans, leader_spans
from tests.support.polling import until

HOST = "this-host"
TRANSPORT = SocketTransport()
HELLO = Hello(GATEWAY, 1, 5, "test", 1, "c")


class Cluster:
    """Storage nodes that serve their traces, and the views of a gateway."""

    def __init__(self, sockets: Path) -> None:
        self.sockets = sockets
        self._members = [Member(GATEWAY, 1, 5, HOST, unix_address=f"unix:{sockets}/own")]
        self._servers: list[RpcServer] = []
        self.unanswered: list[Call] = []
        self.ring = TraceRing()
        self.views = TraceViews("gateway-1", self.ring, OtherProcesses("gateway-1", self._image, lambda: HELLO, HOST, TRANSPORT))

    async def add_storage_node(self, node_id: int, *, hangs: bool = False) -> TraceRing:
        ring = TraceRing()
        methods = TraceLending(f"storage-{node_id}", ring).methods
        if hangs:
            methods = dict.fromkeys(methods, self.unanswered.append)
        server = RpcServer(Hello(STORAGE, node_id, 1, "test", 1, "c"), methods, transport=TRANSPORT)
        self._servers.append(server)
        await server.listen(f"unix:{self.sockets}/{node_id}")
        self._members.append(Member(STORAGE, node_id, 1, HOST, unix_address=f"unix:{self.sockets}/{node_id}"))
        return ring

    def _image(self) -> ClusterImage:
        items = [KeyValue(keys.member(member.role, member.node_id), encode(member), 1, 1, 0) for member in self._members]
        return ClusterImage.from_range(RangeResult(tuple(items), 1))

    async def close(self) -> None:
        for server in self._servers:
            await server.close(0.0)


@pytest.fixture
async def cluster(short_dir: Path) -> AsyncIterator[Cluster]:
    cluster = Cluster(short_dir)
    yield cluster
    await cluster.close()


async def shown(view: Any) -> Any:
    answer = await view
    assert isinstance(answer, WithPage)
    return answer.value


async def test_a_trace_is_stitched_from_the_gateway_and_the_leader(cluster: Cluster) -> None:
    leader, _ = await cluster.add_storage_node(1), await cluster.add_storage_node(2)
    leader.offer(leader_spans())
    cluster.ring.offer(gateway_spans())
    trace = await shown(cluster.views.trace(TRACE_ID))
    assert [(each["process"], each["name"]) for each in trace["spans"]] == [
        ("gateway-1", "orders<script> send"),
        ("gateway-1", "sent"),
        ("storage-1", "append"),
        ("storage-1", "replicated"),
        ("storage-1", "follower 3"),
    ]
    assert trace["unanswered"] == {}
    [line] = (await shown(cluster.views.traces()))["traces"]
    assert line["processes"] == ["gateway-1", "storage-1"]


async def test_a_trace_that_only_another_process_keeps_is_found_by_its_short_id(cluster: Cluster) -> None:
    (await cluster.add_storage_node(1)).offer(leader_spans())
    assert (await shown(cluster.views.trace(TRACE_ID.lstrip("0").upper())))["trace_id"] == TRACE_ID


async def test_processes_that_hang_or_are_gone_are_named(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_answers, "ANSWER_S", 0.3)
    await cluster.add_storage_node(1, hangs=True)
    await cluster.add_storage_node(2)
    cluster.ring.offer(gateway_spans())
    trace = await shown(cluster.views.trace(TRACE_ID))
    assert list(trace["unanswered"]) == ["storage-1"]
    assert len(trace["spans"]) == 2


async def test_processes_beyond_those_that_one_page_asks_are_named(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_answers, "PROCESSES_MAX", 1)
    for node_id in (1, 2, 3):
        (await cluster.add_storage_node(node_id)).offer(leader_spans())
    trace = await shown(cluster.views.trace(TRACE_ID))
    assert {span["process"] for span in trace["spans"]} == {"storage-1"}
    assert trace["unanswered"] == dict.fromkeys(("storage-2", "storage-3"), "not asked: one page asks 1 processes")


async def test_one_question_answers_all_who_ask_it_meanwhile(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_answers, "ANSWER_S", 0.3)
    await cluster.add_storage_node(1, hangs=True)
    cluster.ring.offer(gateway_spans())
    first, *others = [asyncio.ensure_future(shown(cluster.views.trace(TRACE_ID))) for _ in range(100)]
    await until(lambda: bool(cluster.unanswered))
    first.cancel()
    assert {tuple(trace["unanswered"]) for trace in await asyncio.gather(*others)} == {("storage-1",)}
    assert len(cluster.unanswered) == 1


async def test_a_question_beyond_those_that_may_wait_is_refused(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_answers, "ANSWER_S", 0.05)
    await cluster.add_storage_node(1, hangs=True)
    waiting = [asyncio.ensure_future(cluster.views.trace(f"{number}")) for number in range(1 + WAITING_MAX)]
    await until(lambda: bool(cluster.unanswered))
    for refused in (await cluster.views.trace("abc"), await cluster.views.traces()):
        assert isinstance(refused, NotShown)
        assert refused.status == 503
        assert refused.body["error"] == "8 questions about traces wait for answers of other processes already; ask again"
    answers = await asyncio.gather(*waiting)
    assert {answer.status for answer in answers if isinstance(answer, NotShown)} == {404}
    assert isinstance(await cluster.views.traces(), WithPage), "there is room again"


async def test_what_is_no_id_or_unknown_is_not_found(cluster: Cluster) -> None:
    for text in ("", "zz", "1" * 33, "1/2"):
        answer = await cluster.views.trace(text)
        assert isinstance(answer, NotShown)
        assert answer.body["error"] == "a trace id has 1 to 32 hexadecimal digits"
    unknown = await cluster.views.trace("abc")
    assert isinstance(unknown, NotShown)
    assert (unknown.status, unknown.body["error"]) == (404, "no span of it is kept")
    alone = await TraceViews("storage-1", TraceRing()).trace("abc")
    assert isinstance(alone, NotShown)
    assert alone.body["by"] == "storage-1, which alone was asked"


async def test_a_process_without_a_gateways_means_shows_its_own(cluster: Cluster) -> None:
    ring = TraceRing()
    ring.offer(leader_spans())
    views = TraceViews("storage-1", ring)
    assert len((await shown(views.trace(TRACE_ID)))["spans"]) == 3
    assert (await shown(views.traces()))["traces"][0]["processes"] == ["storage-1"]


async def test_a_question_is_answered_beside_the_gateways_own_connection(cluster: Cluster) -> None:
    """A server ends the older of two connections of one node: a page of traces must not cost a gateway its storage node."""
    await cluster.add_storage_node(1)
    own = RpcClient(f"unix:{cluster.sockets}/1", HELLO, TRANSPORT)
    await own.call(TRACES, AskTraces(), timeout_s=5.0)
    await shown(cluster.views.traces())
    assert not own.unreachable
    await own.call(TRACES, AskTraces(), timeout_s=5.0)
    await own.close()
