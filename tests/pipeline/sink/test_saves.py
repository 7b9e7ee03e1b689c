"""`format("penstock")` in a stream, in a `save()`, and in a `save()` inside `foreachBatch`: rows come once."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from services.pipeline.sink.data_source import register
from services.pipeline.sink.schema import HEADERS
from services.pipeline.spark.cluster import ClusterSettings, Topics
from services.pipeline.spark.kafka_source import read_stream, source_options
from tests.pipeline.sink.topics import read_topic
from tests.pipeline.topics import make_topic, numbered, produce

ROWS = 12


@pytest.fixture
def target(spark: SparkSession, bootstrap: str, topic: str) -> str:
    register(spark)
    make_topic(bootstrap, topic, 2)
    return topic


def save(frame: DataFrame, bootstrap: str, target: str, **options: str) -> None:
    given = {"kafka.bootstrap.servers": bootstrap, "topic": target, **{key.replace("_", "."): options[key] for key in options}}
    frame.write.format("penstock").mode("append").options(**given).save()


def numbers(spark: SparkSession, first: int, count: int = ROWS, tasks: int = 1) -> DataFrame:
    return spark.range(first, first + count, 1, tasks).selectExpr("CAST(id AS STRING) AS value")


def written(bootstrap: str, target: str) -> list[int]:
    return sorted(int(record.value or b"") for record in read_topic(bootstrap, target))


def test_the_same_sink_id_and_epoch_write_once_and_the_next_day_has_an_epoch_of_its_own(
    spark: SparkSession, bootstrap: str, target: str
) -> None:
    for epoch, first in ((3, 100), (3, 100), (4, 200)):
        save(numbers(spark, first), bootstrap, target, sink_id=target, epoch=str(epoch))
    assert written(bootstrap, target) == [*range(100, 100 + ROWS), *range(200, 200 + ROWS)]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"sink_id": "daily"}, "a save() with sink.id=daily needs the option epoch"),
        ({"epoch": "1"}, "the option epoch=1 needs the option sink.id"),
    ],
)
def test_half_an_identity_is_refused(
    spark: SparkSession, bootstrap: str, target: str, options: dict[str, str], complaint: str
) -> None:
    with pytest.raises(PySparkException) as caught:
        save(numbers(spark, 0), bootstrap, target, **options)
    assert complaint in str(caught.value)
    assert written(bootstrap, target) == []


def test_a_header_may_have_no_value_and_must_have_a_key(spark: SparkSession, bootstrap: str, target: str) -> None:
    schema = f"value binary, headers {HEADERS}"
    save(spark.createDataFrame([(b"1", [("absent", None), ("empty", b"")])], schema), bootstrap, target)
    for headers in ([(None, b"content")], [("a", b"1"), None]):
        with pytest.raises(PySparkException, match="a row has a header without a key"):
            save(spark.createDataFrame([(b"2", headers)], schema), bootstrap, target)
    assert [record.headers for record in read_topic(bootstrap, target)] == [(("absent", None), ("empty", b""))]


def test_other_rows_in_an_epoch_that_is_written_are_refused(spark: SparkSession, bootstrap: str, target: str) -> None:
    save(numbers(spark, 100), bootstrap, target, sink_id=target, epoch="1")
    with pytest.raises(PySparkException) as caught:
        save(numbers(spark, 200), bootstrap, target, sink_id=target, epoch="1")
    assert f"{ROWS} rows" in str(caught.value)
    assert "other rows need an epoch of their own" in str(caught.value)
    assert written(bootstrap, target) == list(range(100, 100 + ROWS))


def test_rows_where_a_task_of_the_written_epoch_had_none_are_refused(spark: SparkSession, bootstrap: str, target: str) -> None:
    """And none where it had some."""
    nothing, some = numbers(spark, 0).where("value < 0"), numbers(spark, 100)
    save(nothing.union(some), bootstrap, target, sink_id=target, epoch="1")
    for others in (numbers(spark, 200).union(some), nothing.union(nothing)):
        with pytest.raises(PySparkException, match="other rows need an epoch of their own"):
            save(others, bootstrap, target, sink_id=target, epoch="1")
    assert written(bootstrap, target) == list(range(100, 100 + ROWS))


def test_tasks_that_are_numbered_anew_write_no_row_twice(spark: SparkSession, bootstrap: str, target: str) -> None:
    """The first driver died when only its task 0 had committed; the second has these rows in its task 1."""
    first, second = numbers(spark, 100), numbers(spark, 200)
    save(first, bootstrap, target, sink_id=target, epoch="0")
    with pytest.raises(PySparkException):
        save(second.union(first), bootstrap, target, sink_id=target, epoch="0")
    assert written(bootstrap, target) == list(range(100, 100 + ROWS))


def test_a_stream_arrives_once_also_if_its_last_batch_is_repeated(
    spark: SparkSession, bootstrap: str, target: str, tmp_path: Path
) -> None:
    source, records = f"{target}-in", numbered(3 * ROWS, partitions=3)
    make_topic(bootstrap, source, 3)
    produce(bootstrap, source, records)
    options = {"kafka.bootstrap.servers": bootstrap, "topic": target, "checkpointLocation": str(tmp_path)}

    def run() -> None:
        rows = read_stream(spark, source_options(ClusterSettings(bootstrap), Topics((source,))))
        spread = rows.select("key", "value", "headers", "timestamp").repartition(2, "key")
        spread.writeStream.format("penstock").options(**options).trigger(availableNow=True).start().awaitTermination()

    run()
    forget_commit(tmp_path)
    run()
    read = [(each.key, each.value, each.timestamp, each.headers) for each in read_topic(bootstrap, target)]
    assert sorted(read) == sorted((each.key, each.value, each.timestamp_ms, each.headers) for each in records)


def forget_commit(checkpoint: Path) -> None:
    """As if the driver had died after the tasks of batch 0, and before Spark's checkpoint had it."""
    (checkpoint / "commits" / "0").unlink()
    (checkpoint / "commits" / ".0.crc").unlink(missing_ok=True)


def test_saves_of_a_batch_count_once_each_and_one_without_a_sink_id_is_refused(
    spark: SparkSession, bootstrap: str, target: str, tmp_path: Path
) -> None:
    source = f"{target}-in"
    make_topic(bootstrap, source, 1)
    produce(bootstrap, source, numbered(ROWS, partitions=1))

    def run(folder: str, *sink_ids: str | None) -> None:
        def both(frame: DataFrame, _: int) -> None:
            for at, sink_id in enumerate(sink_ids):
                rows = frame.selectExpr(f"CAST(offset + {100 * at} AS STRING) AS value")
                save(rows, bootstrap, target, **({"sink_id": sink_id} if sink_id else {}))

        rows = read_stream(spark, source_options(ClusterSettings(bootstrap), Topics((source,))))
        writer = rows.writeStream.option("checkpointLocation", str(tmp_path / folder)).foreachBatch(both)
        writer.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(PySparkException, match=r"needs the option sink\.id, another one for each save"):
        run("without", None)
    assert written(bootstrap, target) == []
    for _ in range(2):
        run("with", f"{target}-1", f"{target}-2")
        forget_commit(tmp_path / "with")
    assert written(bootstrap, target) == [*range(ROWS), *range(100, 100 + ROWS)]
    with pytest.raises(PySparkException, match="other rows need an epoch of their own"):
        run("clash", f"{target}-3", f"{target}-3")
