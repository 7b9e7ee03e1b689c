"""Transactions: what is open, for how long, and what becomes of it."""

from typing import Final

from tests.monitoring.panels import Dashboard, Query, Row, given_up, lines, number, rates

TRANSACTIONS: Final = Dashboard(
    name="transactions",
    title="transactions",
    purpose="Do transactions end, or do readers of committed records wait for one?",
    variables=("instance",),
    rows=(
        Row(
            "Open",
            (
                number("Oldest under way", "max(penstock_transactions_oldest_seconds)", unit="s", high=900),
                number(
                    "Partitions with a late one", "sum(kafka_server_replicamanager_partitionswithlatetransactionscount)", high=1
                ),
                number("Producers remembered", "sum(kafka_server_replicamanager_produceridcount)"),
                lines("Ids by state", Query("sum by (state) (penstock_transactions_ids)", "{{state}}"), width=12),
                lines("Age of the oldest", Query("max(penstock_transactions_oldest_seconds)", "oldest"), unit="s", width=12),
                lines(
                    "Decided and without all markers",
                    Query(
                        "sum(penstock_transactions_decided_total) - sum(penstock_transactions_completed_total)", "transactions"
                    ),
                    width=12,
                ),
            ),
        ),
        Row(
            "Ended",
            (
                rates("Decided", "penstock_transactions_decided_total", "outcome", width=12),
                rates("All markers written", "penstock_transactions_completed_total", "outcome", width=12),
            ),
        ),
        Row(
            "Coordinators",
            (
                rates("Answers by error", "penstock_transactions_requests_total", "error", width=6),
                rates("Requests", "penstock_transactions_requests_total", "api", width=6),
                lines("Decisions given up", given_up("transactions"), unit="ops", width=6),
                lines(
                    "Shards", Query("sum by (instance, state) (penstock_transactions_shards)", "{{instance}} {{state}}"), width=6
                ),
            ),
        ),
    ),
)
