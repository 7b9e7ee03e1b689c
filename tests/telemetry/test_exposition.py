"""The text of metrics, read back by the parsers of Prometheus' Python library. That of OpenMetrics is strict."""

import asyncio
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

import pytest
from prometheus_client import openmetrics
from prometheus_client.core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as read_prometheus

from libs.telemetry import metrics as metrics_module
from libs.telemetry.definitions import (
    LOOKED_AT_ONCE,
    CounterDefinition,
    GaugeDefinition,
    HistogramDefinition,
    MetricSet,
    Rows,
    with_pauses,
)
from libs.telemetry.durations import BATCH_BUCKETS, Durations, Exemplar
from libs.telemetry.exposition import PIECE_LINES, Format, format_for, pieces
from libs.telemetry.metrics import Metrics

read_openmetrics: Callable[[str], Iterable[Metric]] = text_string_to_metric_families

ODD = 'a "quoted" \\ back\nslash, ä'
TRACE = 0x0AF7651916CD43DD8448EB211C80319C


class Things(MetricSet):
    counted: dict[tuple[str, str], int] = CounterDefinition(
        name="penstock_things", help='Things: "odd" \\ ones.', labels=("kind", "colour"), healthy="any"
    ).kept()
    took: Durations = HistogramDefinition(name="penstock_took_seconds", help="Time.", healthy="any").kept()
    batches: Durations = HistogramDefinition(name="penstock_batch_seconds", help="Time.", healthy="any").kept(
        lambda: Durations(BATCH_BUCKETS)
    )

    def __init__(self, size: int = 3) -> None:
        super().__init__()
        self._size = size

    @GaugeDefinition(name="penstock_sizes", help="Sizes.", labels=("thing",), healthy="any")
    def sizes(self) -> Rows:
        return (((str(number),), number * 1.5) for number in range(self._size))

    @GaugeDefinition(name="penstock_large", help="Large.", healthy="any")
    def large(self) -> Generator[None, None, int]:
        found: list[int] = []
        yield from with_pauses(range(self._size), lambda part: found.extend(part))
        return sum(found) + 123_456_789

    @HistogramDefinition(name="penstock_stage_seconds", help="Time.", labels=("stage",), healthy="any")
    def stages(self) -> Rows:
        return [(("one",), self.took), (("two",), Durations())]


def filled(size: int = 3) -> tuple[Metrics, Things]:
    metrics, things = Metrics("storage", process=True, version="7.1"), Things(size)
    things.counted["plain", ODD] = 3
    things.counted["", "blue"] = 10_000_000
    for seconds in (0.000_001, 0.3, 0.3, 99.0):
        things.took.observe(seconds)
    things.took.exemplify(Exemplar(1, 0.26, 1_700_000_000.0))
    things.took.exemplify(Exemplar(TRACE, 0.3, 1_700_000_001.25))
    metrics.registry.register(things)
    return metrics, things


def samples(families: Iterable[Metric]) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
        if not family.name.startswith(("process_", "python_gc", "penstock_process"))
    }


@pytest.mark.parametrize(
    ("form", "read"),
    [(Format.PROMETHEUS, read_prometheus), (Format.OPENMETRICS, read_openmetrics)],
    ids=["prometheus", "openmetrics"],
)
@pytest.mark.parametrize("size", [0, 3, 5 * PIECE_LINES, 3 * LOOKED_AT_ONCE])
def test_each_format_says_what_the_collectors_have(form: Format, read: Callable[[str], Iterable[Metric]], size: int) -> None:
    metrics, _ = filled(size)
    expected = samples(metrics.registry.collect())
    assert len(expected) > size
    assert samples(read(metrics.render(form).decode())) == expected


def test_openmetrics_ends_with_its_mark_and_prometheus_format_does_not() -> None:
    metrics, _ = filled()
    assert metrics.render(Format.OPENMETRICS).endswith(b"\n# EOF\n")
    assert b"EOF" not in metrics.render()


def test_the_newest_exemplar_of_a_bucket_is_shown_by_openmetrics_only() -> None:
    metrics, _ = filled()
    found = {
        (sample.name, sample.labels["le"], sample.labels.get("stage")): sample.exemplar
        for family in read_openmetrics(metrics.render(Format.OPENMETRICS).decode())
        for sample in family.samples
        if sample.exemplar is not None
    }
    assert found.keys() == {("penstock_took_seconds_bucket", "0.5", None), ("penstock_stage_seconds_bucket", "0.5", "one")}
    for exemplar in found.values():
        assert (exemplar.labels, exemplar.value) == ({"trace_id": f"{TRACE:032x}"}, 0.3)
        assert str(exemplar.timestamp) == "1700000001.250000000"
    assert b"trace_id" not in metrics.render()


def test_a_histogram_with_zeros_keeps_its_exemplars() -> None:
    durations = Durations()
    durations.observe(0.3)
    durations.exemplify(Exemplar(TRACE, 0.3, 1.0))
    assert durations.with_zeros(5).exemplars == durations.exemplars


def test_a_bucket_has_the_same_label_in_both_formats() -> None:
    """Otherwise a server that changes the format would begin new series."""
    metrics, _ = filled()
    edges = [
        [line.partition("}")[0] for line in metrics.render(form).decode().splitlines() if "_bucket{" in line] for form in Format
    ]
    assert edges[0] == edges[1]
    assert any('le="1.0"' in edge for edge in edges[0])


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", Format.PROMETHEUS),
        ("*/*", Format.PROMETHEUS),
        ("text/html,application/xhtml+xml,*/*;q=0.8", Format.PROMETHEUS),
        ("text/plain;version=0.0.4;q=0.5,*/*;q=0.1", Format.PROMETHEUS),
        # Prometheus 2.42, and 3.0.
        (
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
            "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            Format.OPENMETRICS,
        ),
        (
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;"
            "q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
            Format.OPENMETRICS,
        ),
        ("application/openmetrics-text", Format.OPENMETRICS),
        ("Application/OpenMetrics-Text ; Version=1.0.0", Format.OPENMETRICS),
        ("application/openmetrics-text;q=0.3, text/plain;q=0.9", Format.PROMETHEUS),
        ("application/openmetrics-text;q=0", Format.PROMETHEUS),
        ("application/openmetrics-text;version=0.0.1", Format.PROMETHEUS),
        ("application/openmetrics-text;q=high", Format.PROMETHEUS),
        (",;,=", Format.PROMETHEUS),
    ],
)
def test_the_format_is_the_one_that_the_client_prefers(accept: str, form: Format) -> None:
    assert format_for(accept) is form


def test_the_content_type_is_the_library_s() -> None:
    assert openmetrics.exposition.CONTENT_TYPE_LATEST.partition(";")[0] == Format.OPENMETRICS.value.partition(";")[0]


def test_pieces_are_small_whatever_the_number_of_rows() -> None:
    things = Things(20 * LOOKED_AT_ONCE)
    made = list(pieces([things], Format.PROMETHEUS))
    assert max(piece.count("\n") for piece in made) <= PIECE_LINES + 2
    assert made.count("") >= 19, "a pause between two looks at many things"


async def test_other_work_goes_on_while_metrics_are_rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics, _ = filled(10 * LOOKED_AT_ONCE)
    monkeypatch.setattr(metrics_module, "SLICE_S", 0.0)
    rendering = asyncio.create_task(metrics.render_in_slices(Format.PROMETHEUS))
    turns = 0
    while not rendering.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns > 30
    assert len(samples(read_prometheus(rendering.result().decode()))) == len(samples(metrics.registry.collect()))


async def test_scrapes_at_the_same_time_take_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many at once would hold as much text in memory."""
    metrics, _ = filled()
    monkeypatch.setattr(metrics_module, "SLICE_S", 0.0)
    under_way: list[int] = [0]

    def noted(*arguments: Any) -> Iterator[str]:
        under_way.append(under_way[-1] + 1)
        yield from pieces(*arguments)
        under_way.append(under_way[-1] - 1)

    monkeypatch.setattr(metrics_module, "pieces", noted)
    texts = await asyncio.gather(*(metrics.render_in_slices(Format.OPENMETRICS) for _ in range(3)))
    assert under_way == [0, 1, 0, 1, 0, 1, 0]
    assert all(text.endswith(b"# EOF\n") for text in texts)
