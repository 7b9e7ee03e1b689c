"""Consumer groups: lag in seconds and records, rebalances, the coordinators' health."""

from typing import Final

from tests.monitoring.panels import RATE, Dashboard, Query, Row, given_up, lines, number, quantiles, rates, table

GROUPS: Final = Dashboard(
    name="groups",
    title="consumer groups",
    purpose="Which group is behind, for how long, and who rebalances?",
    variables=("consumergroup", "topic"),
    rows=(
        Row(
            "Lag",
            (
                lines(
                    "Seconds behind",
                    Query("max by (consumergroup, topic) (penstock_consumergroup_lag_seconds)", "{{consumergroup}} {{topic}}"),
                    unit="s",
                    width=12,
                ),
                lines(
                    "Records behind",
                    Query("sum by (consumergroup, topic) (kafka_consumergroup_lag)", "{{consumergroup}} {{topic}}"),
                    width=12,
                ),
                table(
                    "Ten partitions furthest behind, seconds",
                    Query("topk(10, max by (consumergroup, topic, partition) (penstock_consumergroup_lag_seconds))"),
                    unit="s",
                ),
                lines(
                    "Records committed a second",
                    Query(
                        f"sum by (consumergroup, topic) (rate(kafka_consumergroup_current_offset[{RATE}]))",
                        "{{consumergroup}} {{topic}}",
                    ),
                    unit="ops",
                    width=8,
                ),
                number("Partitions without lag series", "sum(penstock_groups_lag_series_left_out)", high=1),
            ),
        ),
        Row(
            "Members and rebalances",
            (
                lines("Groups", Query("sum by (kind, state) (penstock_groups_groups)", "{{kind}} {{state}}")),
                lines("Members", Query("sum by (kind) (penstock_groups_members)", "{{kind}}")),
                rates("Rebalances begun", "penstock_groups_rebalances_total", "kind"),
                quantiles("Time of rebalances", "penstock_groups_rebalance_seconds", by="kind"),
                lines(
                    "Longest rebalance under way", Query("max(penstock_groups_longest_rebalance_seconds)", "longest"), unit="s"
                ),
                rates("Errors in answers of groups", "penstock_groups_errors_total", "error"),
            ),
        ),
        Row(
            "Coordinators",
            (
                lines("Shards", Query("sum by (instance, state) (penstock_groups_shards)", "{{instance}} {{state}}")),
                quantiles("Load of a shard", "penstock_groups_shard_load_seconds"),
                rates("Requests", "penstock_groups_requests_total", "api"),
                lines("Decisions given up", given_up("groups"), unit="ops"),
                rates("Offsets committed", "penstock_groups_offsets_committed_total", "instance"),
                rates("Offsets expired", "penstock_groups_offsets_expired_total", "instance"),
            ),
        ),
    ),
)
