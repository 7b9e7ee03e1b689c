"""Quotas: who is muted, and whether limits are shared out."""

from typing import Final

from tests.monitoring.panels import RATE, Dashboard, Query, Row, lines, number, rates

ENTITY: Final = "{{user}} {{client_id}}"
"""A user, a client id, or both."""

QUOTAS: Final = Dashboard(
    name="quotas",
    title="quotas",
    purpose="Are clients muted, by which quota, and does the quota manager share out the limits?",
    variables=("instance",),
    rows=(
        Row(
            "Clients",
            (
                rates("Seconds muted in a second", "penstock_gateway_throttle_seconds_total", "quota", unit="s"),
                rates("Requests that were followed by a mute", "penstock_gateway_throttled_requests_total", "quota"),
                rates("Changes of topics beyond their quota", "penstock_mutation_quota_exceeded_total", "instance"),
            ),
        ),
        Row(
            "Entities that a quota names",
            (
                lines(
                    "Bytes",
                    Query("kafka_server_produce_byte_rate", f"produced by {ENTITY}"),
                    Query("kafka_server_fetch_byte_rate", f"fetched by {ENTITY}"),
                    unit="Bps",
                ),
                lines("Work of gateways, percent of a core", Query("kafka_server_request_request_time", ENTITY)),
                lines(
                    "Throttle time of answers",
                    Query("kafka_server_produce_throttle_time", f"produce, {ENTITY}"),
                    Query("kafka_server_fetch_throttle_time", f"fetch, {ENTITY}"),
                    Query("kafka_server_request_throttle_time", f"requests, {ENTITY}"),
                    unit="ms",
                    high=1,
                ),
            ),
        ),
        Row(
            "Quota manager",
            (
                number("Elected", "sum(penstock_quota_manager_elected) or vector(0)", low=1, high=2),
                number("Entities at work", "max(penstock_quota_manager_entities)"),
                number("Entities that change topics", "max(penstock_mutation_quota_entities)"),
                number("Entities without series", "max(penstock_quota_manager_entities_without_series)", high=1),
                number("Gateways not heard", "max(penstock_quota_manager_silent_gateways)", high=1),
                number("Asks of gateways", f"sum(rate(penstock_quota_manager_asks_total[{RATE}]))", unit="ops"),
            ),
        ),
    ),
)
