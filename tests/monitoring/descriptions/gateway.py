"""Gateways: requests, their times and errors, and connections."""

from typing import Final

from tests.monitoring.panels import RATE, Dashboard, Panel, Query, Row, lines, quantiles, rates

GATE: Final = "penstock_gateway"
REQUESTS: Final = "kafka_network_requestmetrics"


def stage(title: str, name: str) -> Panel:
    """The 99th percentile of the time of a stage, by API."""
    rate = f"sum by (le, api) (rate({REQUESTS}_{name}_seconds_bucket[{RATE}]))"
    return lines(title, Query(f"histogram_quantile(0.99, {rate})", "{{api}}", exemplars=True), unit="s")


GATEWAY: Final = Dashboard(
    name="gateway",
    title="gateways",
    purpose="Are clients served in time? A point on a latency panel leads to the trace of one request.",
    variables=("instance", "api"),
    rows=(
        Row(
            "Requests",
            (
                rates("Answered", f"{GATE}_requests_total", "api"),
                quantiles("Time until the answer was sent", f"{REQUESTS}_totaltime_seconds", by="api"),
                rates("Errors", f"{GATE}_request_errors_total", "error"),
                lines(
                    "Bytes",
                    Query(f"sum(rate({GATE}_received_bytes_total[{RATE}]))", "received"),
                    Query(f"sum(rate({GATE}_sent_bytes_total[{RATE}]))", "sent"),
                    unit="Bps",
                ),
                lines("Requests that have not begun", Query("kafka_network_requestchannel_requestqueuesize", "{{instance}}")),
                stage("Time told to wait, p99", "throttletime"),
            ),
        ),
        Row(
            "Where the time goes",
            (
                stage("Until the request began, p99", "requestqueuetime"),
                stage("In the gateway, p99", "localtime"),
                stage("In other processes, p99", "remotetime"),
                stage("Behind earlier answers, p99", "responsequeuetime"),
                stage("Until the kernel took the answer, p99", "responsesendtime"),
                lines("CPU", Query(f"rate(process_cpu_seconds_total[{RATE}])", "{{instance}}"), unit="percentunit", high=0.9),
            ),
        ),
        Row(
            "Connections",
            (
                lines(
                    "Open, and the most there may be",
                    Query(f"{GATE}_connections", "{{instance}}"),
                    Query(f"{GATE}_connections_max", "most of {{instance}}"),
                ),
                rates("Opened", f"{GATE}_connections_opened_total", "instance"),
                rates("Closed, by reason", f"{GATE}_connections_closed_total", "reason"),
                rates("Refused, by reason", f"{GATE}_connections_refused_total", "reason"),
                lines("Not read for lack of room", Query(f"{GATE}_connections_waiting", "{{instance}}"), high=1),
                rates("Seconds without accepting", f"{GATE}_accept_wait_seconds_total", "instance", unit="s"),
                lines(
                    "Until the certificate expires (0: none)",
                    Query(f"clamp_min({GATE}_certificate_expiry_timestamp_seconds - time(), 0)", "{{instance}}"),
                    unit="s",
                    width=24,
                ),
            ),
        ),
        Row(
            "Memory for clients",
            (
                lines(
                    "Unanswered requests, share of the room",
                    Query(f"{GATE}_queued_request_bytes / {GATE}_queued_request_max_bytes", "{{instance}}"),
                    unit="percentunit",
                    high=0.8,
                ),
                lines(
                    "Unread answers, share of the room",
                    Query(f"{GATE}_unread_answer_bytes / {GATE}_unread_answer_max_bytes", "{{instance}}"),
                    unit="percentunit",
                    high=0.5,
                ),
                lines("Batches that wait for a leader", Query(f"{GATE}_parked_bytes", "{{instance}}"), unit="bytes", high=1),
            ),
        ),
        Row(
            "Ways to storage nodes",
            (
                rates("Batches that waited for a leader", f"{GATE}_parked_total", "instance"),
                rates("Batches sent again", f"{GATE}_resent_total", "instance"),
                rates("Segment files not opened", f"{GATE}_files_not_opened_total", "instance"),
            ),
        ),
    ),
)
