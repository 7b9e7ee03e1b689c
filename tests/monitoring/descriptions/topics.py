"""Topics: who writes and reads how much, and how large they are."""

from typing import Final

from tests.monitoring.panels import RATE, Dashboard, Query, Row, lines, rates, table

TOPIC: Final = "kafka_server_brokertopicmetrics"

TOPICS: Final = Dashboard(
    name="topics",
    title="topics",
    purpose="Which topic takes the load and the disk? Topics beyond PENSTOCK_TOPIC_SERIES_MAX are `(other)`.",
    variables=("topic",),
    rows=(
        Row(
            "Traffic",
            (
                rates("Records in", f"{TOPIC}_messagesin_total", "topic"),
                rates("Bytes in", f"{TOPIC}_bytesin_total", "topic", unit="Bps"),
                rates("Bytes out, by way of storage nodes", f"{TOPIC}_bytesout_total", "topic", unit="Bps"),
                rates("Failed appends", f"{TOPIC}_failedproducerequests_total", "topic"),
                rates("Failed fetches", f"{TOPIC}_failedfetchrequests_total", "topic"),
                lines(
                    "Bytes of a record",
                    Query(
                        f"sum by (topic) (rate({TOPIC}_bytesin_total[{RATE}])) / "
                        f"sum by (topic) (rate({TOPIC}_messagesin_total[{RATE}]))",
                        "{{topic}}",
                    ),
                    unit="bytes",
                ),
            ),
        ),
        Row(
            "Size",
            (
                lines("Bytes of leaders' logs", Query("sum by (topic) (kafka_log_log_size)", "{{topic}}"), unit="bytes"),
                lines(
                    "Records between start and end",
                    Query("sum by (topic) (kafka_log_log_logendoffset - kafka_log_log_logstartoffset)", "{{topic}}"),
                ),
                lines(
                    "Largest partition beside the mean",
                    Query("max by (topic) (kafka_log_log_size) / avg by (topic) (kafka_log_log_size > 0)", "{{topic}}"),
                ),
                table("Ten largest partitions", Query("topk(10, max by (topic, partition) (kafka_log_log_size))"), unit="bytes"),
                table(
                    "Ten busiest partitions, records a second",
                    Query(f"topk(10, max by (topic, partition) (rate(kafka_log_log_logendoffset[{RATE}])))"),
                    unit="ops",
                ),
            ),
        ),
        Row(
            "What has no series of its own",
            (
                lines("Topics", Query("penstock_storage_topics_without_series", "{{instance}}"), width=12, high=1),
                lines("Partitions", Query("penstock_storage_partitions_without_series", "{{instance}}"), width=12, high=1),
            ),
        ),
    ),
)
