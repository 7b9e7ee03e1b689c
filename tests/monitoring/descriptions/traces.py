"""Traces: from a slow or failed request to its spans."""

from typing import Final

from tests.monitoring.panels import RATE, Dashboard, Panel, Query, Row, lines, quantiles, rates

REQUESTS: Final = "kafka_network_requestmetrics"
STAGES: Final = {
    "requestqueuetime": "until it began",
    "localtime": "in the gateway",
    "remotetime": "in other processes",
    "responsequeuetime": "behind earlier answers",
    "responsesendtime": "until the kernel took the answer",
}
"""By Kafka's name of the time: what it is."""

TRACES: Final = Dashboard(
    name="traces",
    title="traces",
    purpose="Which requests were slow or failed, and where did their time go? A point on a latency panel leads to one trace.",
    rows=(
        Row(
            "Slow requests",
            (
                quantiles("Time to the answer", "kafka_network_requestmetrics_totaltime_seconds", by="api", width=12),
                lines(
                    "Mean time of a stage of Produces",
                    *(
                        Query(
                            f'sum(rate({REQUESTS}_{name}_seconds_sum{{api="produce"}}[{RATE}])) / '
                            f'sum(rate({REQUESTS}_{name}_seconds_count{{api="produce"}}[{RATE}]))',
                            shown,
                        )
                        for name, shown in STAGES.items()
                    ),
                    unit="s",
                    width=12,
                ),
                quantiles("Stages of a batch on its leader", "penstock_storage_append_stage_seconds", by="stage", width=12),
                rates("Failed requests", "penstock_gateway_request_errors_total", "error", width=12),
            ),
        ),
        Row(
            "Export",
            (
                lines(
                    "Spans",
                    Query(f"sum(rate(penstock_trace_spans_total[{RATE}]))", "made"),
                    Query(f"sum(rate(penstock_trace_spans_exported_total[{RATE}]))", "taken by the collector"),
                    Query(f"sum(rate(penstock_trace_spans_beyond_cap_total[{RATE}]))", "not made, beyond the cap"),
                    unit="ops",
                ),
                lines("In the queue", Query("penstock_trace_spans_waiting", "{{instance}}"), high=2048),
                rates("Dropped, by reason", "penstock_trace_spans_dropped_total", "reason"),
            ),
        ),
        Row(
            "Newest traces",
            (
                Panel(title="Traces of gateways", queries=(Query("penstock-gateway"),), kind="traces", width=12),
                Panel(title="Traces of storage nodes", queries=(Query("penstock-storage"),), kind="traces", width=12),
            ),
        ),
    ),
)
