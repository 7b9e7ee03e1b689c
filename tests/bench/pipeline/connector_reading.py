"""Spark's own connector reading a topic from Penstock and from a warm Apache Kafka, alternating. Prints one JSON line.

`.tools/pipeline/venv/bin/python -m tests.bench.pipeline.connector_reading [--records 2000000] [--rounds 5]`
"""

import sys
from collections.abc import Callable

from pyspark.sql import SparkSession

from services.pipeline.spark.cluster import ClusterSettings, Topics
from services.pipeline.spark.kafka_source import read_batch, source_options
from tests.bench.pipeline.subjects import TOPIC, alternating, folder, kafka, parser, penstock, print_ratio, session

TARGET = 1.0


def reading(spark: SparkSession, bootstrap: str) -> Callable[[], None]:
    """Reads all columns of all records, and drops them."""
    records = read_batch(spark, source_options(ClusterSettings(bootstrap), Topics((TOPIC,))))
    return lambda: records.write.format("noop").mode("overwrite").save()


def main(arguments: list[str]) -> None:
    given = parser(__doc__ or "", 2_000_000).parse_args(arguments)
    with folder() as directory, penstock(given.records) as ours, kafka(given.records, directory) as theirs:
        spark = session(given.driver_memory)
        seconds = alternating({"penstock": reading(spark, ours), "kafka": reading(spark, theirs)}, given.rounds)
        spark.stop()
    print_ratio("Spark's connector reading", given.records, seconds, TARGET)


if __name__ == "__main__":
    main(sys.argv[1:])
