"""The requests that every process answers to a gateway that shows traces: for those that it keeps, and for the spans of one.

They are for people: attributes are texts, and long ones are cut.
"""

from libs.lean_dataclass import dataclass

TRACES = "traces.list"
TRACE = "traces.spans"


@dataclass(frozen=True, slots=True)
class AskTraces:
    """The request for a line on each trace."""


@dataclass(frozen=True, slots=True)
class ShownTrace:
    """What one process keeps of a trace."""

    trace_id: str
    """32 hexadecimal digits."""
    kind: str
    """`failed`, `slow` or `sampled`."""
    name: str
    """Of its root, or else of its first span here."""
    has_root: bool
    start_ns: int
    """Nanoseconds since the Unix epoch, as `end_ns`."""
    end_ns: int
    spans: int
    error: str


@dataclass(frozen=True, slots=True)
class ShownTraces:
    traces: tuple[ShownTrace, ...]


@dataclass(frozen=True, slots=True)
class AskTrace:
    trace_id: str


@dataclass(frozen=True, slots=True)
class ShownEvent:
    name: str
    time_ns: int
    attributes: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ShownLink:
    trace_id: str
    span_id: str
    attributes: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ShownSpan:
    """A span. Its ids are 16 hexadecimal digits; `parent_id` is "" for the root."""

    process: str
    span_id: str
    parent_id: str
    name: str
    kind: str
    start_ns: int
    end_ns: int
    error: str
    attributes: tuple[tuple[str, str], ...]
    links: tuple[ShownLink, ...]
    events: tuple[ShownEvent, ...]


@dataclass(frozen=True, slots=True)
class ShownSpans:
    """What one process keeps of a trace. `left_out`: spans beyond its bound."""

    kind: str
    spans: tuple[ShownSpan, ...]
    left_out: int
