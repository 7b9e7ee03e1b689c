"""`format("penstock")` and the jobs' epochs, in Spark."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from libs.wire.record_batches.records import Record
from services.pipeline.errors import PipelineError
from services.pipeline.job_file.file import parse_job_file
from services.pipeline.jobs.kinds import STARTERS
from services.pipeline.jobs.running import Surroundings, reason_of
from services.pipeline.sink.data_source import register
from services.pipeline.sink.writing import EpochWriter
from services.pipeline.spark.cluster import ClusterSettings, Topics
from services.pipeline.spark.kafka_source import read_stream, source_options
from tests.pipeline.chaos.lake_table import write_table
from tests.pipeline.sink.topics import fill_topic, read_topic
from tests.pipeline.topics import make_topic
from tests.support.cluster_harness import LocalCluster

# PySpark leaves sockets to the garbage collector after `collect`.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

NOW_MS = 1_795_000_000_000
ROWS = [Record(b"key-%d" % (n % 7), b"%d" % n, NOW_MS + n, (("h", b"x"),) * (n % 2)) for n in range(200)]


@pytest.fixture
def topics(cluster: LocalCluster, topic: str) -> tuple[str, str]:
    """One with the rows, and an empty one."""
    for name in (f"{topic}-in", f"{topic}-out"):
        make_topic(cluster.bootstrap, name, 3)
    fill_topic(cluster.bootstrap, f"{topic}-in", ROWS)
    return f"{topic}-in", f"{topic}-out"


def contents(bootstrap: str, topic: str) -> list[tuple[object, ...]]:
    return sorted((record.key, record.value, record.timestamp, record.headers) for record in read_topic(bootstrap, topic))


def expected(rows: list[Record]) -> list[tuple[object, ...]]:
    return sorted((row.key, row.value, row.timestamp, row.headers) for row in rows)


def test_a_stream_arrives_once_also_if_its_last_batch_is_repeated(
    spark: SparkSession, cluster: LocalCluster, topics: tuple[str, str], tmp_path: Path
) -> None:
    source, target = topics
    register(spark)
    options = {"kafka.bootstrap.servers": cluster.bootstrap, "topic": target, "checkpointLocation": str(tmp_path)}

    def run() -> None:
        frame = read_stream(spark, source_options(ClusterSettings(cluster.bootstrap), Topics((source,))))
        rows = frame.select("key", "value", "headers", "timestamp")
        rows.writeStream.format("penstock").options(**options).trigger(availableNow=True).start().awaitTermination()

    run()
    (tmp_path / "commits" / "0").unlink()  # as if the driver had died before it
    (tmp_path / "commits" / ".0.crc").unlink(missing_ok=True)
    run()
    assert contents(cluster.bootstrap, target) == expected(ROWS)


@pytest.mark.parametrize(
    ("expression", "options", "complaint"),
    [
        ("id AS value", {}, "column value has type bigint; the sink takes binary or string"),
        ("CAST(id AS STRING) AS key", {}, "the column value is missing"),
        ("CAST(id AS STRING) AS text", {}, "the sink has no column text; it has key, value"),
        ("'a' AS value", {"topics": "x"}, "the sink has no option topics; it has"),
        ("'a' AS value", {"kafka.security.protocol": "SSL"}, "kafka.security.protocol=SSL is not built"),
        ("'a' AS value", {"kafka.bootstrap.servers": "here"}, "has 'here': an address is host:port"),
        ("'a' AS value", {"kafka.compression.type": "brotli"}, "kafka.compression.type=brotli is none of none, gzip"),
        ("'a' AS value", {"topic": "not-there"}, "there is no topic not-there: create it before rows are written to it"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(
    spark: SparkSession, cluster: LocalCluster, topics: tuple[str, str], expression: str, options: dict[str, str], complaint: str
) -> None:
    register(spark)
    frame = spark.range(5).selectExpr(expression)
    given = {"kafka.bootstrap.servers": cluster.bootstrap, "topic": topics[1], **options}
    with pytest.raises(PySparkException) as caught:
        frame.write.format("penstock").mode("append").options(**given).save()
    assert complaint in str(caught.value)
    assert read_topic(cluster.bootstrap, topics[1]) == []


def test_a_repeated_epoch_with_another_number_of_tasks_is_refused_before_a_task_runs(
    spark: SparkSession, cluster: LocalCluster, topics: tuple[str, str]
) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.adaptive.enabled", "false")
    frame: DataFrame = session.range(40).selectExpr("CAST(id AS STRING) AS value")
    write = EpochWriter({"kafka.bootstrap.servers": cluster.bootstrap, "topic": topics[1]}, topics[1], "test")
    assert write(frame.repartition(2, "value"), 0).rows == 40
    with pytest.raises(PipelineError, match="was begun with 2 tasks and is repeated with 3"):
        write(frame.repartition(3, "value"), 0)
    session.conf.set("spark.sql.adaptive.enabled", "true")
    with pytest.raises(PipelineError, match="adaptive"):
        write(frame, 1)


def test_a_failed_task_gives_its_one_sentence(spark: SparkSession, cluster: LocalCluster, topics: tuple[str, str]) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.adaptive.enabled", "false")
    frame = session.range(1).selectExpr("'a' AS value", "7 AS partition")
    write = EpochWriter({"kafka.bootstrap.servers": cluster.bootstrap, "topic": topics[1]}, topics[1], "test")
    with pytest.raises(PySparkException) as caught:
        write(frame, 0)
    assert reason_of(caught.value) == f"a row names partition 7 of topic {topics[1]}, which has 3: 0 to 2 are allowed"


def run_job(spark: SparkSession, cluster: LocalCluster, lake: Path, job: str) -> None:
    file = parse_job_file(f'[cluster]\nbootstrap_servers = "{cluster.bootstrap}"\n[lake]\npath = "{lake}"\n[jobs.one]\n{job}')
    one = file.jobs["one"]
    STARTERS[type(one)](one, Surroundings(spark, file.cluster, file.lake)).wait()


def test_windows_with_a_watermark_are_written_when_they_end(
    spark: SparkSession, cluster: LocalCluster, topics: tuple[str, str], tmp_path: Path
) -> None:
    source, target = topics
    fill_topic(cluster.bootstrap, source, [Record(b"late", b"1000", NOW_MS + 100_000)])
    job = f"""
kind = "transform"
topic = "{target}"
query = "SELECT key, CAST(count(*) AS STRING) AS value FROM numbers GROUP BY key, window(timestamp, '10 seconds')"
inputs.numbers = {{topics = ["{source}"], watermark = {{column = "timestamp", delay = "1 second"}}}}
"""
    for _ in range(2):  # the second run has nothing new, and repeats nothing
        run_job(spark, cluster, tmp_path, job)
    counts = {record.key: int(record.value or b"") for record in read_topic(cluster.bootstrap, target)}
    assert counts == {b"key-%d" % key: sum(n % 7 == key for n in range(200)) for key in range(7)}


def test_a_query_that_spark_refuses_is_one_sentence(
    spark: SparkSession, cluster: LocalCluster, topics: tuple[str, str], tmp_path: Path
) -> None:
    job = f'kind = "transform"\ntopic = "{topics[1]}"\nquery = "SELECT nothing FROM a"\ninputs.a.topics = ["{topics[0]}"]'
    with pytest.raises(PipelineError, match=r"one: Spark refuses the query: \[UNRESOLVED_COLUMN") as caught:
        run_job(spark, cluster, tmp_path, job)
    assert "\n" not in str(caught.value)
