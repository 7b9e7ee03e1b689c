"""`format("penstock")` and the jobs' epochs, in Spark."""

import json
import uuid
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from libs.wire.record_batches.records import Record
from services.pipeline.errors import PipelineError
from services.pipeline.sink.data_source import register
from services.pipeline.sink.handouts import prepare
from services.pipeline.sink.options import read_options
from services.pipeline.sink.task_identity import TaskIdentity
from services.pipeline.sink.task_writer import write_task
from services.pipeline.sink.writing import EpochWriter
from services.pipeline.spark.cluster import ClusterSettings, Topics
from services.pipeline.spark.kafka_source import read_stream, source_options
from services.pipeline.spark.refusals import reason_of
from tests.pipeline.jobs_in_process import run_jobs
from tests.pipeline.sink.arrow_rows import arrow_rows
from tests.pipeline.sink.topics import fill_topic, read_topic
from tests.pipeline.topics import Record as PlacedInput
from tests.pipeline.topics import make_topic, produce

# PySpark leaves sockets to the garbage collector after `collect`.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

NOW_MS = 1_795_000_000_000
ROWS = [Record(b"key-%d" % (n % 7), b"%d" % n, NOW_MS + n, (("h", b"x"),) * (n % 2)) for n in range(200)]


@pytest.fixture
def topics(bootstrap: str, topic: str) -> tuple[str, str]:
    """One with the rows, and an empty one."""
    for name in (f"{topic}-in", f"{topic}-out"):
        make_topic(bootstrap, name, 3)
    fill_topic(bootstrap, f"{topic}-in", ROWS)
    return f"{topic}-in", f"{topic}-out"


def contents(bootstrap: str, topic: str) -> list[tuple[object, ...]]:
    return sorted((record.key, record.value, record.timestamp, record.headers) for record in read_topic(bootstrap, topic))


def expected(rows: list[Record]) -> list[tuple[object, ...]]:
    return sorted((row.key, row.value, row.timestamp, row.headers) for row in rows)


def test_a_stream_whose_driver_died_between_two_tasks_writes_no_row_twice(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    """A dead driver's task 0 had the rows of one partition. Spark's new task 0 has them in one of the two streams only."""
    register(spark)
    make_topic(bootstrap, topic, 2)
    by_partition = [[Record(b"key", b"%d/%d" % (number, n), NOW_MS + n) for n in range(20)] for number in range(2)]
    for number, rows in enumerate(by_partition):
        produce(bootstrap, topic, [PlacedInput(number, row.key, row.value, row.timestamp) for row in rows])
    refusals = []
    for number, rows in enumerate(by_partition):
        target, checkpoint = f"{topic}-{number}", tmp_path / str(number)
        make_topic(bootstrap, target, 2)
        write_as_dead_driver(bootstrap, target, checkpoint, rows)
        refusal = refusal_of_stream(spark, bootstrap, topic, target, checkpoint)
        assert contents(bootstrap, target) == expected(rows if refusal else by_partition[0] + by_partition[1])
        refusals.append(refusal)
    (refusal,) = filter(None, refusals)
    assert "were committed as task 0" in refusal or "the repeated task has 20" in refusal


def write_as_dead_driver(bootstrap: str, target: str, checkpoint: Path, rows: list[Record]) -> None:
    """Task 0 of batch 0 of a query with that checkpoint."""
    query = str(uuid.uuid4())
    checkpoint.mkdir()
    (checkpoint / "metadata").write_text(json.dumps({"id": query}), encoding="utf-8")
    options = read_options({"kafka.bootstrap.servers": bootstrap, "topic": target})
    task = TaskIdentity(query, 0, 0, None, query, "dead driver")
    write_task([arrow_rows(rows)], task, options, prepare(options, query, None))


def refusal_of_stream(spark: SparkSession, bootstrap: str, source: str, target: str, checkpoint: Path) -> str | None:
    rows = read_stream(spark, source_options(ClusterSettings(bootstrap), Topics((source,))))
    options = {"kafka.bootstrap.servers": bootstrap, "topic": target, "checkpointLocation": str(checkpoint)}
    writer = rows.select("key", "value", "timestamp").writeStream.format("penstock").options(**options)
    try:
        writer.trigger(availableNow=True).start().awaitTermination()
    except PySparkException as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("expression", "options", "complaint"),
    [
        ("id AS value", {}, "column value has type bigint; the sink takes binary or string"),
        ("CAST(id AS STRING) AS key", {}, "the column value is missing"),
        ("CAST(id AS STRING) AS text", {}, "the sink has no column text; it has key, value"),
        ("'a' AS value", {"topics": "x"}, "the sink has no option topics; it has"),
        ("'a' AS value", {"kafka.security.protocol": "TLS"}, "kafka.security.protocol: 'TLS' is none of"),
        ("'a' AS value", {"kafka.bootstrap.servers": "here"}, "has 'here': an address is host:port"),
        ("'a' AS value", {"kafka.compression.type": "brotli"}, "kafka.compression.type=brotli is none of none, gzip"),
        ("'a' AS value", {"topic": "not-there"}, "there is no topic not-there: create it before rows are written to it"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(
    spark: SparkSession, bootstrap: str, topics: tuple[str, str], expression: str, options: dict[str, str], complaint: str
) -> None:
    register(spark)
    frame = spark.range(5).selectExpr(expression)
    given = {"kafka.bootstrap.servers": bootstrap, "topic": topics[1], **options}
    with pytest.raises(PySparkException) as caught:
        frame.write.format("penstock").mode("append").options(**given).save()
    assert complaint in str(caught.value)
    assert read_topic(bootstrap, topics[1]) == []


def test_a_repeated_epoch_with_another_number_of_tasks_is_refused_before_a_task_runs(
    spark: SparkSession, bootstrap: str, topics: tuple[str, str]
) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.adaptive.enabled", "false")
    frame: DataFrame = session.range(40).selectExpr("CAST(id AS STRING) AS value")
    write = EpochWriter({"kafka.bootstrap.servers": bootstrap, "topic": topics[1]}, topics[1], "test")
    assert write(frame.repartition(2, "value"), 0).rows == 40
    with pytest.raises(PipelineError, match="was begun with 2 tasks and is repeated with 3"):
        write(frame.repartition(3, "value"), 0)
    session.conf.set("spark.sql.adaptive.enabled", "true")
    with pytest.raises(PipelineError, match="adaptive"):
        write(frame, 1)


def test_a_failed_task_gives_its_one_sentence(spark: SparkSession, bootstrap: str, topics: tuple[str, str]) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.adaptive.enabled", "false")
    frame = session.range(1).selectExpr("'a' AS value", "7 AS partition")
    write = EpochWriter({"kafka.bootstrap.servers": bootstrap, "topic": topics[1]}, topics[1], "test")
    with pytest.raises(PySparkException) as caught:
        write(frame, 0)
    assert reason_of(caught.value) == f"a row names partition 7 of topic {topics[1]}, which has 3: 0 to 2 are allowed"


def test_windows_with_a_watermark_are_written_when_they_end(
    spark: SparkSession, bootstrap: str, topics: tuple[str, str], tmp_path: Path
) -> None:
    source, target = topics
    fill_topic(bootstrap, source, [Record(b"late", b"1000", NOW_MS + 100_000)])
    job = f"""
[jobs.one]
kind = "transform"
topic = "{target}"
query = "SELECT key, CAST(count(*) AS STRING) AS value FROM numbers GROUP BY key, window(timestamp, '10 seconds')"
inputs.numbers = {{topics = ["{source}"], watermark = {{column = "timestamp", delay = "1 second"}}}}
"""
    for _ in range(2):  # the second run has nothing new, and repeats nothing
        run_jobs(spark, bootstrap, tmp_path, job)
    counts = sorted((record.key, int(record.value or b"")) for record in read_topic(bootstrap, target))
    assert counts == [(b"key-%d" % key, sum(n % 7 == key for n in range(200))) for key in range(7)]


def test_a_query_that_spark_refuses_is_one_sentence(
    spark: SparkSession, bootstrap: str, topics: tuple[str, str], tmp_path: Path
) -> None:
    job = f"""
[jobs.one]
kind = "transform"
topic = "{topics[1]}"
query = "SELECT nothing FROM a"
inputs.a.topics = ["{topics[0]}"]
"""
    with pytest.raises(PipelineError, match=r"jobs\.one\.query: Spark refuses it: \[UNRESOLVED_COLUMN") as caught:
        run_jobs(spark, bootstrap, tmp_path, job)
    assert "\n" not in str(caught.value)
