"""Metrics in a PromQL expression: which it names, and the labels by which a dashboard chooses among their series."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Final

from libs.telemetry.definitions import Definition, HistogramDefinition
from tests.docs.metrics_page import PROCESS, definitions, exposed, process_metrics

METRIC: Final = re.compile(r"\b(?P<name>(?:kafka|penstock|process|python)_\w+|up)\b(?P<labels>\{[^}]*\})?(?![\w(:])")
SUFFIXES: Final = ("_bucket", "_sum", "_count")


@cache
def known() -> Mapping[str, Definition]:
    """By the name that a scrape shows, a histogram under those of its three parts too."""
    found = {}
    for definition in (*PROCESS.values(), *(each for of_service in definitions().values() for each in of_service)):
        found[exposed(definition)] = definition
        if isinstance(definition, HistogramDefinition):
            found |= {f"{definition.name}{suffix}": definition for suffix in SUFFIXES}
    return found


@cache
def of_processes() -> frozenset[str]:
    """Names of what every process of Python tells, besides `up`, which Prometheus adds."""
    return frozenset({"up", *process_metrics(), *(f"{name}_total" for name in process_metrics())})


def metrics_of(expression: str) -> Iterator[str]:
    """The names of metrics, in their order."""
    return (found["name"] for found in METRIC.finditer(expression))


def narrowed(expression: str, variables: Iterable[str]) -> str:
    """The expression with `label=~"$label"` for `job`, and for each of the variables that is a label of the metric.

    Each scraped series has `job` and `instance`.
    """
    wanted = ("job", *variables)

    def with_labels(found: re.Match[str]) -> str:
        definition = known().get(found["name"])
        own = {"job", "instance", *(definition.labels if definition else ())}
        chosen = [f'{label}=~"${label}"' for label in wanted if label in own]
        given = [(found["labels"] or "{}")[1:-1]] if found["labels"] else []
        return f"{found['name']}{{{', '.join([*chosen, *given])}}}"

    return METRIC.sub(with_labels, expression)
