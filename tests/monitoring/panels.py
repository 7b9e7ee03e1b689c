"""The words in which dashboards are described: a dashboard has rows, a row has panels, a panel has queries.

A query names metrics without the labels that choose cluster, instance or topic: `dashboard_json.py` adds these.
"""

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["timeseries", "stat", "table", "traces"]
COLUMNS: Final = 24
"""The width of Grafana's grid."""
RATE: Final = "$__rate_interval"


@dataclass(frozen=True, slots=True)
class Query:
    """A PromQL expression, and what each of its series is called in the legend."""

    expression: str
    legend: str = ""
    exemplars: bool = False
    """Whether the panel shows the trace ids of single requests as points, which link to their traces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    title: str
    queries: tuple[Query, ...]
    kind: Kind = "timeseries"
    unit: str = "short"
    """A unit of Grafana: `short`, `s`, `bytes`, `Bps`, `ops`, `percentunit`."""
    width: int = 8
    high: float | None = None
    """The value from which it is red."""
    low: float | None = None
    """The value below which it is red."""


@dataclass(frozen=True, slots=True)
class Row:
    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """`name` is that of the file. `variables` are labels by which a viewer chooses, besides the cluster."""

    name: str
    title: str
    purpose: str
    rows: tuple[Row, ...]
    variables: tuple[str, ...] = ()


def lines(title: str, *queries: Query, unit: str = "short", width: int = 8, high: float | None = None) -> Panel:
    """Series over time."""
    return Panel(title=title, queries=queries, unit=unit, width=width, high=high)


def number(title: str, expression: str, *, unit: str = "short", high: float | None = None, low: float | None = None) -> Panel:
    """The last value, large."""
    return Panel(title=title, queries=(Query(expression),), kind="stat", unit=unit, width=4, high=high, low=low)


def table(title: str, *queries: Query, unit: str = "short", width: int = 12, high: float | None = None) -> Panel:
    """The last value of each series, one row each."""
    return Panel(title=title, queries=queries, kind="table", unit=unit, width=width, high=high)


def rates(title: str, counter: str, by: str, *, unit: str = "ops", width: int = 8) -> Panel:
    """Increase of a counter in a second, for each value of its label `by`."""
    return lines(title, Query(f"sum by ({by}) (rate({counter}[{RATE}]))", f"{{{{{by}}}}}"), unit=unit, width=width)


def quantiles(title: str, histogram: str, *, by: str = "", width: int = 8, high: float | None = None) -> Panel:
    """Median and 99th percentile of a histogram in seconds, with exemplars. `by`: for each value of that label; `""`: of all."""
    grouped = f"le, {by}" if by else "le"
    named = f" {{{{{by}}}}}" if by else ""

    def query(quantile: float) -> Query:
        rate = f"sum by ({grouped}) (rate({histogram}_bucket[{RATE}]))"
        return Query(f"histogram_quantile({quantile}, {rate})", f"p{quantile * 100:g}{named}", exemplars=quantile == 0.99)

    return lines(title, query(0.5), query(0.99), unit="s", width=width, high=high)


def given_up(coordinators: str) -> Query:
    """Decisions that coordinators of `groups` or `transactions` could not write, in a second."""
    rate = f'sum(rate(penstock_{coordinators}_unwritable_decisions_total{{outcome="given up"}}[{RATE}]))'
    return Query(f"{rate} or vector(0)", "given up")
