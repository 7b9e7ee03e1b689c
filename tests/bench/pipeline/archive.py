"""The archive job beside Spark's own plain stream from Kafka to Parquet, both from Penstock, alternating. Prints one JSON line.

`.tools/pipeline/venv/bin/python -m tests.bench.pipeline.archive [--records 2000000] [--rounds 5]`
"""

import itertools
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from services.pipeline.spark.cluster import ClusterSettings, Topics
from services.pipeline.spark.kafka_source import read_stream, source_options
from tests.bench.pipeline.subjects import TOPIC, alternating, folder, parser, penstock, print_ratio, session
from tests.pipeline.jobs_in_process import run_jobs

TARGET = 0.9
_numbers = itertools.count()


def archive(spark: SparkSession, bootstrap: str, directory: Path) -> None:
    lake = directory / f"lake-{next(_numbers)}"
    run_jobs(spark, bootstrap, lake, f'[jobs.all]\nkind = "archive"\ntopics = ["{TOPIC}"]\n')


def plain(spark: SparkSession, bootstrap: str, directory: Path) -> None:
    table = directory / f"plain-{next(_numbers)}"
    records = read_stream(spark, source_options(ClusterSettings(bootstrap), Topics((TOPIC,))))
    writer = records.writeStream.format("parquet").option("path", str(table)).option("checkpointLocation", f"{table}-checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()


def main(arguments: list[str]) -> None:
    given = parser(__doc__ or "", 2_000_000).parse_args(arguments)
    with folder() as directory, penstock(given.records) as bootstrap:
        spark = session(given.driver_memory)
        subjects = {
            "archive": lambda: archive(spark, bootstrap, directory),
            "plain": lambda: plain(spark, bootstrap, directory),
        }
        seconds = alternating(subjects, given.rounds)
        spark.stop()
    print_ratio("archive", given.records, seconds, TARGET)


if __name__ == "__main__":
    main(sys.argv[1:])
