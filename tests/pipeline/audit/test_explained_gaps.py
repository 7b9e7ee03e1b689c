"""Offsets that log or lake rightly lack: each is explained, and the rest is not."""

from collections.abc import Callable
from datetime import date, timedelta

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from services.pipeline.audit.comparison import AuditResult, compare
from services.pipeline.audit.findings import Finding, Kind, gap
from services.pipeline.audit.settings import AuditSettings
from services.pipeline.audit.sides import LakeSide
from services.pipeline.audit.slices import Partition
from services.pipeline.spark.cluster import ClusterSettings, Topics
from tests.pipeline.audit import topics
from tests.pipeline.audit.lake_tables import archived
from tests.pipeline.topics import make_topic
from tests.support.polling import eventually

SMALL_SEGMENTS = {"min.cleanable.dirty.ratio": "0.01", "internal.segment.bytes": "20000", "file.delete.delay.ms": "100"}


def audit(rows: DataFrame, bootstrap: str, topic: str, *, end: int | None = None, **lake: object) -> AuditResult:
    """`end`: what the checkpoint says the archive has reached."""
    reached = {} if end is None else {Partition(topic, 0): end}
    settings = AuditSettings(
        topics=Topics((topic,)), bucket_offsets=100, read_uncommitted=bool(lake.pop("read_uncommitted", False))
    )
    return compare(rows.sparkSession, ClusterSettings(bootstrap), LakeSide("the table", rows, reached, **lake), settings)


def test_markers_and_aborted_records_are_explained_by_the_log_s_own_batches(
    spark: SparkSession, bootstrap: str, topic: str
) -> None:
    make_topic(bootstrap, topic, 1)
    topics.transactions(bootstrap, topic, "caac")
    rows = archived(spark, bootstrap, topic)
    explained = [
        gap(Kind.CONTROL, topic, 0, 10, 10),
        gap(Kind.ABORTED, topic, 0, 11, 20),
        gap(Kind.CONTROL, topic, 0, 21, 21),
        gap(Kind.ABORTED, topic, 0, 22, 31),
        gap(Kind.CONTROL, topic, 0, 32, 32),
        gap(Kind.CONTROL, topic, 0, 43, 43),
    ]
    assert audit(rows, bootstrap, topic, end=44).findings == explained
    holed = audit(rows.where("offset not in (5, 40)"), bootstrap, topic, end=44)
    assert holed.unexplained == [gap(Kind.MISSING, topic, 0, 5, 5), gap(Kind.MISSING, topic, 0, 40, 40)]
    assert [each for each in holed.findings if each.is_explained] == explained


def test_a_lake_of_uncommitted_records_has_the_aborted_ones_too(spark: SparkSession, bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic, 1)
    topics.transactions(bootstrap, topic, "ca")
    rows = archived(spark, bootstrap, topic, read_uncommitted=True)
    found = audit(rows, bootstrap, topic, end=22, read_uncommitted=True).findings
    assert found == [gap(Kind.CONTROL, topic, 0, 10, 10), gap(Kind.CONTROL, topic, 0, 21, 21)]


def test_what_compaction_removes_is_explained_if_a_later_record_has_its_key(
    spark: SparkSession, bootstrap: str, topic: str
) -> None:
    make_topic(bootstrap, topic, 1, SMALL_SEGMENTS)
    for _ in range(3):
        topics.fill(bootstrap, topic, range(300), keys=300, batch=10)
    before = archived(spark, bootstrap, topic).cache()
    assert before.count() == 900
    topics.compact(bootstrap, topic)
    left = compacted_to(bootstrap, topic, lambda: archived(spark, bootstrap, topic))
    result = audit(before, bootstrap, topic)
    assert result.unexplained == []
    assert {finding.kind for finding in result.findings} == {Kind.COMPACTED}
    assert sum(finding.records for finding in result.findings) >= 900 - left
    # An unchanged lake cannot have lost a key's last record: that one the log must have.
    stranger = before.where("offset = 5").withColumn("key", F.lit(b"no other has it"))
    planted = audit(before.where("offset != 5").unionAll(stranger), bootstrap, topic)
    assert planted.unexplained == [gap(Kind.UNEXPECTED, topic, 0, 5, 5)]


def compacted_to(bootstrap: str, topic: str, read: Callable[[], DataFrame]) -> int:
    """Waits until the cleaner has removed something that a reader sees; returns how many records are left."""
    counted: list[int] = []

    def fewer() -> bool:
        counted.append(read().count())
        return counted[-1] < 900

    eventually(fewer, within_s=60)
    return counted[-1]


def test_what_lies_below_the_log_s_start_is_the_log_s_retention(spark: SparkSession, bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic, 1)
    topics.fill(bootstrap, topic, range(300))
    rows = archived(spark, bootstrap, topic).cache()
    assert rows.count() == 300
    admin = AdminClient({"bootstrap.servers": bootstrap})
    [deleted] = admin.delete_records([TopicPartition(topic, 0, 120)]).values()
    assert deleted.result(timeout=30).low_watermark == 120
    assert audit(rows, bootstrap, topic).findings == [Finding(Kind.LOG_RETENTION, topic, 0, 0, 119, 120)]
    holed = audit(rows.where("offset != 200"), bootstrap, topic)
    assert holed.unexplained == [gap(Kind.MISSING, topic, 0, 200, 200)]


def test_dates_that_the_lake_dropped_are_the_lake_s_retention(spark: SparkSession, bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic, 1)
    topics.fill(bootstrap, topic, range(50))
    rows = archived(spark, bootstrap, topic)
    in_two_days = date.today() + timedelta(days=2)
    result = audit(rows.where("false"), bootstrap, topic, end=50, retained_from=in_two_days)
    assert result.findings == [gap(Kind.LAKE_RETENTION, topic, 0, 0, 49)]
    assert audit(rows, bootstrap, topic, retained_from=date(2020, 1, 1)).findings == []


def test_what_the_archive_has_not_reached_is_not_missing_but_its_lost_tail_is(
    spark: SparkSession, bootstrap: str, topic: str
) -> None:
    make_topic(bootstrap, topic, 1)
    topics.fill(bootstrap, topic, range(80))
    rows = archived(spark, bootstrap, topic).where("offset < 60")
    assert audit(rows, bootstrap, topic).findings == [gap(Kind.NOT_YET, topic, 0, 60, 79)]
    assert audit(rows, bootstrap, topic, end=70).findings == [
        gap(Kind.MISSING, topic, 0, 60, 69),
        gap(Kind.NOT_YET, topic, 0, 70, 79),
    ]


def test_a_partition_that_neither_table_nor_checkpoint_knows_is_not_just_late(
    spark: SparkSession, bootstrap: str, topic: str
) -> None:
    make_topic(bootstrap, topic, 2)
    topics.fill(bootstrap, topic, range(30))
    topics.fill(bootstrap, topic, range(20), partition=1)
    rows = archived(spark, bootstrap, topic).where("partition = 0")
    lost = audit(rows, bootstrap, topic, end=30)
    assert lost.unexplained == [gap(Kind.NEVER_ARCHIVED, topic, 1, 0, 19)]
    known = {Partition(topic, 0): 30, Partition(topic, 1): 0}
    late = compare(spark, ClusterSettings(bootstrap), LakeSide("the table", rows, known), AuditSettings(topics=Topics((topic,))))
    assert late.findings == [gap(Kind.NOT_YET, topic, 1, 0, 19)]


def test_what_the_log_had_before_the_archive_began_is_not_missing(spark: SparkSession, bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic, 1)
    topics.fill(bootstrap, topic, range(50))
    rows = archived(spark, bootstrap, topic)
    began = {Partition(topic, 0): 20}
    result = audit(rows.where("offset >= 20"), bootstrap, topic, end=50, began=began)
    assert result.findings == [gap(Kind.BEFORE_ARCHIVE, topic, 0, 0, 19)]
    holed = audit(rows.where("offset >= 25"), bootstrap, topic, end=50, began=began)
    assert holed.unexplained == [gap(Kind.MISSING, topic, 0, 20, 24)]
