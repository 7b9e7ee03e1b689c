"""The pipeline on Spark: how far its jobs are behind, and how fast they go.

A metric of the pipeline has a label `job` of its own, which Prometheus keeps as `exported_job`.
"""

from typing import Final

from tests.monitoring.panels import RATE, Dashboard, Query, Row, lines, quantiles, rates

PIPELINE: Final = Dashboard(
    name="pipeline",
    title="pipeline",
    purpose="Is the lake fresh, and which job stays behind?",
    rows=(
        Row(
            "Freshness",
            (
                lines(
                    "Age of the oldest record that no batch has read",
                    Query("max by (exported_job, topic) (penstock_pipeline_freshness_seconds)", "{{exported_job}} {{topic}}"),
                    unit="s",
                    width=12,
                    high=1800,
                ),
                lines(
                    "Offsets behind",
                    Query("sum by (exported_job, topic) (penstock_pipeline_lag_offsets)", "{{exported_job}} {{topic}}"),
                    width=12,
                ),
            ),
        ),
        Row(
            "Work",
            (
                rates("Records", "penstock_pipeline_rows_total", "exported_job"),
                rates("Bytes", "penstock_pipeline_bytes_total", "exported_job", unit="Bps"),
                quantiles("Time of a micro-batch", "penstock_pipeline_batch_seconds", by="exported_job"),
                lines(
                    "Micro-batches a minute",
                    Query(
                        f"60 * sum by (exported_job) (rate(penstock_pipeline_batch_seconds_count[{RATE}]))", "{{exported_job}}"
                    ),
                ),
                rates("Dead letters", "penstock_pipeline_dead_letters_total", "exported_job"),
                rates("Offsets that the group did not take", "penstock_pipeline_group_commit_failures_total", "exported_job"),
            ),
        ),
    ),
)
