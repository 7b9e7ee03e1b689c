"""How many spans a process makes, as metrics."""

from types import SimpleNamespace
from typing import Any, cast

from libs.telemetry.metrics import Metrics


def recorder(recorded: int, refused: int) -> Any:
    looks = SimpleNamespace(refused=0)
    return cast(Any, SimpleNamespace(recorded=recorded, refused=refused, contexts=0, malformed_contexts=0, looks=looks))


def test_services_that_share_a_process_are_counted_together() -> None:
    """Two families of one name are no metrics that Prometheus would read."""
    metrics = Metrics("dev")
    for each in (recorder(3, 1), recorder(4, 0)):
        metrics.watch_spans(each)
    text = metrics.render().decode()
    assert text.count("# TYPE penstock_trace_spans_total ") == 1
    assert "penstock_trace_spans_total 7.0\n" in text
    assert "penstock_trace_spans_beyond_cap_total 1.0\n" in text


def test_a_process_that_makes_no_spans_has_no_metrics_of_them() -> None:
    assert b"penstock_trace_spans" not in Metrics("pipeline").render()
