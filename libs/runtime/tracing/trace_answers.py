"""What a process shows of its traces: to gateways by RPC, and at its own admin port.

A gateway asks the other processes, one question at a time: a trace passes several of them.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from libs.cluster.image import ClusterImage
from libs.cluster.member_addresses import address_of
from libs.rpc.client.rpc_client import Hello, RpcClient
from libs.rpc.contracts.traces import TRACE, TRACES, AskTrace, AskTraces, ShownSpans, ShownTraces
from libs.rpc.messages.errors import ContractError, RpcFailure
from libs.rpc.messages.schema import unpack
from libs.rpc.server.rpc_server import Accept, Call
from libs.rpc.transport.transport import Transport
from libs.runtime.admin import NotShown, WithPage
from libs.runtime.tracing.trace_page import list_page, trace_page
from libs.runtime.tracing.trace_views import joined_spans, joined_traces, shown_spans, shown_traces
from libs.telemetry.tracing.trace_ring import TraceRing
from libs.wire.errors import ErrorCode

ANSWER_S = 1.0
"""A process that has not answered by then is named, and its spans are missing."""
PROCESSES_MAX = 100
"""How many are asked for one page."""
TRACE_ID = re.compile(r"[0-9a-fA-F]{1,32}\Z")
WAITING_MAX = 8
"""How many questions may wait for the one that is out."""
T = TypeVar("T")
Answers = tuple[dict[str, T], dict[str, str]]
"""By process: its answer, and why there is none."""


class TraceLending:
    """The RPC methods by which gateways get the traces of this process, which is named as in `make status`."""

    def __init__(self, process: str, ring: TraceRing) -> None:
        self._process, self._ring = process, ring

    @property
    def methods(self) -> dict[str, Accept]:
        return {TRACES: self._list, TRACE: self._spans}

    def _list(self, call: Call) -> None:
        call.reply(shown_traces(self._ring))

    def _spans(self, call: Call) -> None:
        trace_id = unpack(AskTrace, call.body).trace_id
        if TRACE_ID.match(trace_id):
            call.reply(shown_spans(self._process, self._ring, trace_id))
        else:
            call.fail(ErrorCode.INVALID_REQUEST, "a trace id has 1 to 32 hexadecimal digits")


class TooManyQuestions(Exception):
    """The error of a question that would have to wait for `WAITING_MAX` others."""

    def __init__(self) -> None:
        super().__init__(f"{WAITING_MAX} questions about traces wait for answers of other processes already; ask again")


class OtherProcesses:
    """The members of the image, but for this process. It has connections only while a question is out."""

    def __init__(
        self, process: str, image: Callable[[], ClusterImage], hello: Callable[[], Hello], host_id: str, transport: Transport
    ):
        self._process, self._image, self._hello, self._host_id, self._transport = process, image, hello, host_id, transport
        self._asking = asyncio.Lock()
        self._questions: dict[tuple[str, object], asyncio.Task[Answers[Any]]] = {}
        """By method and body: those that have no answer yet."""

    async def ask(self, method: str, body: object, answer: type[T]) -> Answers[T]:
        """Who asks the same meanwhile gets the same answers. `body` is hashable. Raises TooManyQuestions."""
        question: asyncio.Task[Answers[T]] | None = self._questions.get((method, body))
        if question is None:
            if len(self._questions) > WAITING_MAX:
                raise TooManyQuestions
            question = self._questions[method, body] = asyncio.ensure_future(self._ask_in_turn(method, body, answer))
            question.add_done_callback(lambda _: self._questions.pop((method, body)))
        return await asyncio.shield(question)  # others may wait for it, when one of them has gone

    async def _ask_in_turn(self, method: str, body: object, answer: type[T]) -> Answers[T]:
        async with self._asking:
            return await self._ask(method, body, answer)

    async def _ask(self, method: str, body: object, answer: type[T]) -> Answers[T]:
        # The hello has no node id, since a server ends the older of two connections of one node.
        hello = replace(self._hello(), node_id=-1)
        members = list(self._members())
        clients = {process: RpcClient(address, hello, self._transport) for process, address in members[:PROCESSES_MAX]}
        try:
            given = await asyncio.gather(*(_answer(client, method, body, answer) for client in clients.values()))
        finally:
            for client in clients.values():
                await client.close()
        pairs = list(zip(clients, given, strict=True))
        return (
            {process: each for process, each in pairs if not isinstance(each, str)},
            {process: each for process, each in pairs if isinstance(each, str)}
            | {process: f"not asked: one page asks {PROCESSES_MAX} processes" for process, _ in members[PROCESSES_MAX:]},
        )

    def _members(self) -> Iterator[tuple[str, str]]:
        """Each process, and its address."""
        for role, members in sorted(self._image().members_by_role.items()):
            for node_id, member in sorted(members.items()):
                process, address = f"{role}-{node_id}", address_of(member, self._host_id)
                if process != self._process and address:
                    yield process, address


async def _answer(client: RpcClient, method: str, body: object, answer: type[T]) -> T | str:
    """The answer, or why there is none."""
    try:
        return unpack(answer, (await client.call(method, body, timeout_s=ANSWER_S)).body)
    except (RpcFailure, ContractError) as error:
        return str(error)


class TraceViews:
    """`/debug/traces` and `/debug/traces/ID` of a process. `others` answer too, if they are given. A thread joins the answers."""

    def __init__(self, process: str, ring: TraceRing, others: OtherProcesses | None = None) -> None:
        self._process, self._ring, self._others = process, ring, others

    async def traces(self) -> WithPage | NotShown:
        try:
            answers, unanswered = await self._ask(TRACES, AskTraces(), ShownTraces)
        except TooManyQuestions as error:
            return NotShown(503, {"error": str(error)})
        all_answers = {self._process: shown_traces(self._ring), **answers}
        return await asyncio.to_thread(self._list, all_answers, unanswered)

    def _list(self, answers: Mapping[str, ShownTraces], unanswered: Mapping[str, str]) -> WithPage:
        lines = joined_traces(answers)
        shown = {"process": self._process, "traces": [line.as_json() for line in lines], "unanswered": unanswered}
        return WithPage(shown, partial(list_page, self._process, lines, unanswered))

    async def trace(self, given: str) -> WithPage | NotShown:
        if not TRACE_ID.match(given):
            return NotShown(404, {"error": "a trace id has 1 to 32 hexadecimal digits"})
        trace_id = f"{int(given, 16):032x}"
        try:
            answers, unanswered = await self._ask(TRACE, AskTrace(trace_id), ShownSpans)
        except TooManyQuestions as error:
            return NotShown(503, {"error": str(error)})
        found = [shown_spans(self._process, self._ring, trace_id), *answers.values()]
        return await asyncio.to_thread(self._whole, trace_id, found, unanswered)

    def _whole(self, trace_id: str, found: Sequence[ShownSpans], unanswered: Mapping[str, str]) -> WithPage | NotShown:
        whole = joined_spans(trace_id, found, unanswered)
        if whole is None:
            asked = "no process that answered" if self._others is not None else f"{self._process}, which alone was asked"
            return NotShown(404, {"error": "no span of it is kept", "by": asked, "trace_id": trace_id, "unanswered": unanswered})
        return WithPage(whole.as_json(), partial(trace_page, whole))

    def _ask(self, method: str, body: object, answer: type[T]) -> Awaitable[Answers[T]]:
        return self._others.ask(method, body, answer) if self._others is not None else _nobody()


async def _nobody() -> Answers[T]:
    return {}, {}
