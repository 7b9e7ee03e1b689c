"""One Append call, and the answers of its partitions. It is answered once, when the last of them is settled."""

from collections.abc import Mapping, Sequence
from typing import Any

from libs.rpc.messages.envelope import EMPTY
from libs.rpc.server.call import Call
from libs.telemetry.tracing.rpc_context import first_contexts, pack_contexts
from libs.telemetry.tracing.span import SpanContext
from services.storage.core.produce.append_spans import Wait, WriteTimes
from services.storage.partition.append_answers import Answer, is_joined

NOT_WRITTEN: WriteTimes = (0.0, 0.0, 0.0)


class AppendCall:
    """One Append call. It is answered when its last partition is settled."""

    __slots__ = (
        "_answers",
        "_contexts",
        "_found",
        "_waiting",
        "_waits",
        "acks",
        "call",
        "deadline",
        "is_traced",
        "produce_version",
        "received_at",
        "transactional_id",
    )

    def __init__(
        self,
        call: Call,
        acks: int,
        received_at: float,
        timeout_s: float,
        partitions: int,
        transactional_id: str | None = None,
        produce_version: int = 0,
    ) -> None:
        self.acks = acks
        self.received_at = received_at
        self.deadline = received_at + timeout_s
        self.transactional_id = transactional_id
        self.produce_version = produce_version
        self.call = call
        self._answers: list[Answer | None] = [None] * partitions
        self._waiting = partitions
        self._found: dict[int, SpanContext] | None = None
        self._waits: dict[int, Wait] | None = None
        self.is_traced = call.trace is not None
        """Whether somebody has decided on a trace of one of its batches."""
        self._contexts: Mapping[int, SpanContext] | None = None  # None: nobody has asked for them

    def settle(self, slot: int, answer: Answer) -> None:
        assert self._answers[slot] is None, "a partition is answered once"
        self._answers[slot] = answer
        self._settled(1)

    def settle_run(self, slot: int, answers: Sequence[Answer]) -> None:
        """Settles consecutive batches, from `slot` on."""
        end = slot + len(answers)
        assert self._answers[slot] is None is self._answers[end - 1], "a partition is answered once"
        self._answers[slot:end] = answers
        self._settled(len(answers))

    def _settled(self, batches: int) -> None:
        self._waiting -= batches
        if not self._waiting:
            self.call.reply([self._answers, pack_contexts(list(self._found.items()))] if self._found else [self._answers])

    @property
    def cancelled(self) -> bool:
        """Whether the caller hung up or gave up, so that no answer would be heard."""
        return self.call.cancelled

    def written(self) -> None:
        """Frees the receive buffer: the bytes are in the log, and only the commit is awaited."""
        self.call.payload = EMPTY

    def context_of(self, slot: int) -> SpanContext | None:
        """The trace that a batch belongs to. None: nobody decided on one."""
        if self._contexts is None:
            self._contexts = first_contexts(self.call.trace)
        return self._contexts.get(slot)

    def found_context(self, slot: int, context: SpanContext) -> None:
        """Notes the context that a client wrote into a compressed batch. The answer tells the gateway of it."""
        self._found = {**(self._found or {}), slot: context}
        self.is_traced = True

    def client_of(self, slot: int) -> SpanContext | None:
        """The client's context that was found in the batch."""
        return self._found.get(slot) if self._found is not None else None

    def waits_for(self, slot: int, reason: str, context: SpanContext | None = None) -> None:
        """Notes why a batch is not staged when it comes, for its trace. The last reason counts. `context`: that of its wait."""
        self._waits = {**(self._waits or {}), slot: Wait(reason, context.span_id if context is not None else None)}

    def wait_of(self, slot: int) -> Wait | None:
        """None: it did not wait, or nobody told why."""
        return self._waits.get(slot) if self._waits is not None else None

    def part_of(self, slot: int) -> int:
        """Tells apart clients' requests that share this call."""
        return slot if is_joined(self.call.body) else 0


class Staged:
    """An append with offsets. It waits for the write, then perhaps for the high watermark to reach `end_offset`."""

    __slots__ = ("_answer", "end_offset", "request", "slot", "write")
    batches = 1

    def __init__(self, request: AppendCall, slot: int, end_offset: int, answer: Answer) -> None:
        self.request = request
        self.slot = slot
        self.end_offset = end_offset
        self.write = NOT_WRITTEN
        self._answer = answer

    def succeed(self) -> None:
        self.request.settle(self.slot, self._answer)

    def split(self) -> "Sequence[Staged]":
        """Itself: it is one batch."""
        return (self,)

    @property
    def base_offset(self) -> int:
        base_offset = self._answer[1]
        assert isinstance(base_offset, int), "an `Appended`"
        return base_offset

    def refuse(self, answer: Answer) -> None:
        self.request.settle(self.slot, answer)


class StagedRun:
    """Consecutive batches of one call, staged as one append: they are written, wait and succeed together. Whoever has anything
    else to tell of them splits the run."""

    __slots__ = ("_answers", "end_offset", "request", "slot", "write")

    def __init__(self, request: AppendCall, slot: int, end_offset: int, answers: Sequence[Answer]) -> None:
        """`slot`: of the first batch. `end_offset`: behind the last one. `answers`: of the successes, in order."""
        self.request = request
        self.slot = slot
        self.end_offset = end_offset
        self.write = NOT_WRITTEN
        self._answers = answers

    @property
    def batches(self) -> int:
        return len(self._answers)

    def succeed(self) -> None:
        self.request.settle_run(self.slot, self._answers)

    def split(self) -> Sequence[Staged]:
        """Each batch as an append of its own, in their order."""
        ends: list[Any] = [*[answer[1] for answer in self._answers[1:]], self.end_offset]
        appends = [
            Staged(self.request, self.slot + at, end, answer)
            for at, (answer, end) in enumerate(zip(self._answers, ends, strict=True))
        ]
        for append in appends:
            append.write = self.write
        return appends


StagedAppend = Staged | StagedRun
