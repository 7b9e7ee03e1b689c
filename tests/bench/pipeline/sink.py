"""Topic to topic: our exactly-once sink beside Spark's at-least-once sink, on Penstock and on a warm Apache Kafka, alternating.

`.tools/pipeline/venv/bin/python -m tests.bench.pipeline.sink [--records 1000000] [--rounds 5]`. Prints a JSON line for each pair.
"""

import itertools
import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from services.pipeline.jobs.transform import epochs
from services.pipeline.sink.data_source import register
from services.pipeline.spark.cluster import ClusterSettings, Topics
from services.pipeline.spark.kafka_source import read_stream, source_options
from tests.bench.pipeline.subjects import PARTITIONS, TOPIC, alternating, folder, kafka, parser, penstock, print_ratio, session
from tests.compat.kafka.tools import run_tool

TARGET = 0.7
PAIRS = (
    ("penstock, ours", "penstock, Spark's"),
    ("penstock, data source", "penstock, Spark's"),
    ("penstock, ours", "kafka, Spark's"),
)
_numbers = itertools.count()


class TopicToTopic:
    """Copies the filled topic into a new one."""

    def __init__(self, spark: SparkSession, bootstrap: str, directory: Path) -> None:
        self._spark = spark
        self._bootstrap = bootstrap
        self._directory = directory

    def by_ours(self) -> None:
        """As the transform job does."""
        target = self._new_topic()
        options = {"kafka.bootstrap.servers": self._bootstrap, "topic": target}
        self._finish(self._rows().writeStream.foreachBatch(epochs(options)), target)

    def by_data_source(self) -> None:
        target = self._new_topic()
        options = {"kafka.bootstrap.servers": self._bootstrap, "topic": target}
        self._finish(self._rows().writeStream.format("penstock").options(**options), target)

    def by_sparks(self) -> None:
        target = self._new_topic()
        options = {"kafka.bootstrap.servers": self._bootstrap, "topic": target}
        self._finish(self._rows().drop("timestamp").writeStream.format("kafka").options(**options), target)

    def _rows(self) -> DataFrame:
        frame = read_stream(self._spark, source_options(ClusterSettings(self._bootstrap), Topics((TOPIC,))))
        return frame.select("key", "value", "headers", "timestamp")

    def _finish(self, writer: object, target: str) -> None:
        checkpoint = str(self._directory / target)
        writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()  # type: ignore[attr-defined]

    def _new_topic(self) -> str:
        name = f"copy-{next(_numbers)}"
        create = ("--create", "--topic", name, "--partitions", str(PARTITIONS), "--replication-factor", "1")
        run_tool("kafka-topics", "--bootstrap-server", self._bootstrap, *create)
        return name


def main(arguments: list[str]) -> None:
    given = parser(__doc__ or "", 1_000_000).parse_args(arguments)
    with folder() as directory, penstock(given.records) as ours, kafka(given.records, directory / "kafka") as theirs:
        spark = session(given.driver_memory)
        register(spark)
        on_penstock, on_kafka = (TopicToTopic(spark, bootstrap, directory) for bootstrap in (ours, theirs))
        subjects: dict[str, Callable[[], None]] = {
            "penstock, ours": on_penstock.by_ours,
            "penstock, data source": on_penstock.by_data_source,
            "penstock, Spark's": on_penstock.by_sparks,
            "kafka, Spark's": on_kafka.by_sparks,
        }
        seconds = alternating(subjects, given.rounds)
        spark.stop()
    for this, that in PAIRS:
        print_ratio(f"{this} / {that}", given.records, {this: seconds[this], that: seconds[that]}, TARGET)


if __name__ == "__main__":
    main(sys.argv[1:])
