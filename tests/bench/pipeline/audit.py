"""An audit of a topic and its table: records of both sides a second. Prints one JSON line a round.

`.tools/pipeline/venv/bin/python -m tests.bench.pipeline.audit [--records 5000000] [--rounds 3] [--driver-memory 2g]`

The table is made by Spark alone.
"""

import sys

from pyspark.sql import functions as F

from services.pipeline.audit.comparison import compare
from services.pipeline.audit.settings import AuditSettings
from services.pipeline.audit.sides import LakeSide
from services.pipeline.spark.cluster import ClusterSettings, Topics
from services.pipeline.spark.kafka_source import read_batch, source_options
from services.pipeline.transforms.checksums import FIELDS
from tests.bench.pipeline.subjects import TOPIC, folder, parser, penstock, print_line, session

TARGET_RECORDS_PER_S = 1_000_000


def main(arguments: list[str]) -> None:
    given = parser(__doc__ or "", 5_000_000).parse_args(arguments)
    with folder() as directory, penstock(given.records) as bootstrap:
        spark, cluster, topics = session(given.driver_memory), ClusterSettings(bootstrap), Topics((TOPIC,))
        table = str(directory / "table")
        records = read_batch(spark, source_options(cluster, topics)).withColumnRenamed("timestampType", "timestamp_type")
        rows = records.select("topic", "partition", "offset", *FIELDS).withColumn("date", F.to_date("timestamp"))
        rows.write.partitionBy("topic", "date").parquet(table)
        for number in range(given.rounds + 1):
            result = compare(spark, cluster, LakeSide(table, spark.read.parquet(table)), AuditSettings(topics=topics))
            assert result.findings == []
            both = sum(each.records for each in (*result.log, *result.lake))
            assert both == 2 * given.records
            figures = {
                "round": number,
                "records": given.records,
                "seconds": round(result.seconds, 1),
                "records_per_s": round(given.records / result.seconds),
                "records_of_both_sides_per_s": round(both / result.seconds),
                "target_records_per_s": TARGET_RECORDS_PER_S,
                "driver_memory": given.driver_memory,
            }
            print_line("audit", figures)
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
