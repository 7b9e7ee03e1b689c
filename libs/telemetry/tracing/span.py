"""A span, as a process makes it once all its times are known, and the interface of what takes it."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple, Protocol

from libs.lean_dataclass import dataclass

AttributeValue = str | int | float | bool
Attributes = Mapping[str, AttributeValue]

NO_ATTRIBUTES: Attributes = MappingProxyType({})


class SpanContext(NamedTuple):
    """The identity of a span, as W3C Trace Context has it. Ids are never 0."""

    trace_id: int
    """128 bits."""
    span_id: int
    """64 bits."""
    sampled: bool = True
    """Whether somebody decided in advance that this trace is kept."""


class SpanKind(IntEnum):
    """Which end of a call a span is. The values are OTLP's."""

    INTERNAL = 1
    SERVER = 2
    CLIENT = 3
    PRODUCER = 4
    CONSUMER = 5


class Link(NamedTuple):
    """A span of another trace that this one has to do with."""

    context: SpanContext
    attributes: Attributes = NO_ATTRIBUTES


class SpanEvent(NamedTuple):
    """A point in time within a span."""

    name: str
    time_ns: int
    attributes: Attributes = NO_ATTRIBUTES


@dataclass(frozen=True, slots=True)
class Span:
    """One step of a trace. It never changes once it is made."""

    context: SpanContext
    parent_id: int | None
    """The span id of its parent in the same trace. None: it is the root."""
    name: str
    kind: SpanKind
    start_ns: int
    """Nanoseconds since the Unix epoch, as `end_ns`, which is never earlier."""
    end_ns: int
    attributes: Attributes = field(default_factory=dict)
    """Names are those of `conventions.py`."""
    error: str | None = None
    """The reason of its failure, by name: `NOT_LEADER_OR_FOLLOWER`. None: it did not fail."""
    links: Sequence[Link] = ()
    events: Sequence[SpanEvent] = ()


class SpanSink(Protocol):
    """The receiver of finished spans. It is called on the event loop."""

    def offer(self, spans: Sequence[Span]) -> None:
        """Takes spans, or drops and counts them. Never blocks, never raises."""
        ...
