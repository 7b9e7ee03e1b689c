"""Metrics, each declared once: where its value is, with its name, its HELP text, and what an operator makes of it.

The body of a `MetricSet` declares its metrics. An attribute on which code counts is a definition that is `kept`. A value that is
only known at a scrape is a method with the definition as its decorator:

    class Doors(MetricSet):
        opened: int = CounterDefinition(name="penstock_doors_opened", help="Doors opened.", healthy="any").kept()

        @GaugeDefinition(name="penstock_doors", help="Doors of the house.", healthy="1")
        def doors(self) -> int:
            return len(self._house.doors)

Nothing of a declaration is left in the way of a count: `doors.opened += 1` adds to a plain attribute. docs/operate/metrics.md is
written from the definitions (tests/docs/metrics_page.py).

A scrape must not hold up the event loop (`exposition.py`). Rows may come one by one, and a method that looks at many things may
be a generator: it yields None where a scrape may pause, and returns the value. What it looks at may be gone after a pause.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from inspect import isgeneratorfunction
from typing import Any, ClassVar, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from libs.lean_dataclass import dataclass
from libs.telemetry.durations import Durations

Labels = Sequence[str]
Rows = Iterable[tuple[Labels, Any]]
"""Label values, and the value with them: a number, or the `Durations` of a histogram."""
Value = Any
"""A number, `Durations`, or with labels `Rows`."""
Family = tuple["Definition", Value]
Read = TypeVar("Read", bound=Callable[[Any], float | Durations | Rows | Generator[None, None, Any]])

T = TypeVar("T")
LOOKED_AT_ONCE = 500
"""The things that a scrape looks at between two pauses: about 0.2 ms."""


def with_pauses(things: Sequence[T], take: Callable[[Sequence[T]], object], at_once: int = LOOKED_AT_ONCE) -> Iterator[None]:
    """Calls `take` with each part of the things, and yields None between two of them."""
    for start in range(0, len(things), at_once):
        if start:
            yield None
        take(things[start : start + at_once])


def label_values(key: Any) -> Labels:
    """The label values of a key, which is one value or a tuple of them."""
    return [str(value) for value in key] if isinstance(key, tuple) else [str(key)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """What all kinds of metrics have. `labels` are the label names."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    healthy: str
    """The range in which nothing needs to be done."""
    otherwise: str = ""
    """What to do when the value is out of that range. Empty: no value is out of range."""

    def __call__(self, read: Read) -> Read:
        """Declares that a method of a `MetricSet` tells the value. With labels it returns `Rows`."""
        vars(read)["definition"] = self
        return read

    def kept(self, initial: Callable[[], object] | None = None, shown: Callable[[Any], Labels] = label_values) -> Any:
        """Declares an attribute of a `MetricSet`, which holds the value. With labels it is a mapping.

        `initial` makes its first value: by default 0, `Durations` or an empty dict. `shown`: the label values of one of its keys.
        """
        return Kept(self, initial or (dict if self.labels else self._zero), shown)

    def _zero(self) -> float | Durations:
        return 0

    def family(self, value: Value) -> Metric:
        """All samples at once."""
        raise NotImplementedError

    def rows(self, value: Value) -> Rows:
        """A single value is a row without labels."""
        return value if self.labels else [((), value)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterDefinition(Definition):
    """A count since the start of the process. Prometheus adds `_total` to its name.

    `from_zero`: label values that a scrape shows with 0 before they count. Prometheus sees no increase in a series that begins
    at 1, so an alert would miss the first event of a process.
    """

    from_zero: tuple[tuple[str, ...], ...] = ()

    def rows(self, value: Value) -> Rows:
        if not self.from_zero:
            return Definition.rows(self, value)
        counted = {tuple(labels): count for labels, count in value}
        return {**dict.fromkeys(self.from_zero, 0), **counted}.items()

    def family(self, value: float | Rows) -> CounterMetricFamily:
        family = CounterMetricFamily(self.name, self.help, labels=self.labels)
        for labels, count in self.rows(value):
            family.add_metric(labels, count)
        return family


@dataclass(frozen=True, slots=True, kw_only=True)
class GaugeDefinition(Definition):
    """A value at the moment of the scrape."""

    def family(self, value: float | Rows) -> GaugeMetricFamily:
        family = GaugeMetricFamily(self.name, self.help, labels=self.labels)
        for labels, size in self.rows(value):
            family.add_metric(labels, size)
        return family


@dataclass(frozen=True, slots=True, kw_only=True)
class HistogramDefinition(Definition):
    """Durations in seconds since the start of the process. Prometheus adds `_bucket`, `_sum` and `_count` to its name."""

    def _zero(self) -> Durations:
        return Durations()

    def family(self, value: Durations | Rows) -> HistogramMetricFamily:
        family = HistogramMetricFamily(self.name, self.help, labels=self.labels)
        for labels, durations in self.rows(value):
            family.add_metric(labels, durations.cumulative(), durations.total_s)
        return family


@dataclass(frozen=True, slots=True)
class Kept:
    """The declaration of an attribute."""

    definition: Definition
    initial: Callable[[], object]
    shown: Callable[[Any], Labels]

    def rows(self, value: Any) -> Any:
        """What `Definition.family` takes of the attribute's value."""
        return [(self.shown(key), value[key]) for key in sorted(value)] if self.definition.labels else value


class FamilySource(Collector):
    """A collector whose families are read one after the other, with pauses."""

    def families(self) -> Iterator[Family | None]:
        """None: a scrape may pause here."""
        raise NotImplementedError

    def collect(self) -> Iterator[Metric]:
        for family in self.families():
            if family is not None:
                definition, value = family
                yield definition.family(value)


class MetricSet(FamilySource):
    """A collector whose class body declares its metrics. Families come in the order of the declarations."""

    definitions: ClassVar[Mapping[str, Definition]] = {}
    """By the name of the attribute or method."""
    _kept: ClassVar[Mapping[str, Kept]] = {}

    def __init_subclass__(cls) -> None:
        declared = {name: each for name, each in vars(cls).items() if isinstance(getattr(each, "definition", None), Definition)}
        kept = {name: each for name, each in declared.items() if isinstance(each, Kept)}
        cls.definitions = {**cls.definitions, **{name: each.definition for name, each in declared.items()}}
        cls._kept = {**cls._kept, **kept}
        for name in kept:
            delattr(cls, name)  # without `__init__`, a count would add to the declaration

    def __init__(self) -> None:
        for name, kept in self._kept.items():
            setattr(self, name, kept.initial())

    def families(self) -> Iterator[Family | None]:
        for name, definition in self.definitions.items():
            value, kept = getattr(self, name), self._kept.get(name)
            if kept is not None:
                yield definition, kept.rows(value)
            elif isgeneratorfunction(value):
                yield definition, (yield from value())
            else:
                yield definition, value()
