"""Damage that is planted into a table is found to the offset, and nothing else is."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from services.pipeline.audit.comparison import AuditResult, compare
from services.pipeline.audit.findings import Finding, Kind, gap
from services.pipeline.audit.settings import AuditSettings
from services.pipeline.audit.sides import LakeSide
from services.pipeline.audit.slices import Bucket, Partition
from services.pipeline.errors import PipelineError
from services.pipeline.spark.cluster import ClusterSettings, Topics
from tests.pipeline.audit import topics
from tests.pipeline.audit.lake_tables import archived, damaged, written
from tests.pipeline.topics import make_topic


def audit(rows: DataFrame, bootstrap: str, topic: str) -> AuditResult:
    settings = AuditSettings(topics=Topics((topic,)), bucket_offsets=100)
    return compare(rows.sparkSession, ClusterSettings(bootstrap), LakeSide("the table", rows), settings)


@pytest.mark.parametrize("table_format", ["parquet", "delta"])
def test_a_hole_a_duplicate_and_flipped_bytes_are_found_exactly(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, table_format: str
) -> None:
    make_topic(bootstrap, topic, 2)
    topics.fill(bootstrap, topic, range(1000))
    topics.fill(bootstrap, topic, range(500), partition=1)
    whole = archived(spark, bootstrap, topic)
    assert audit(written(whole, tmp_path / "whole", table_format), bootstrap, topic).findings == []
    flips = {"key": 301, "value": 302, "timestamp": 303, "timestamp_type": 304, "headers": 305}
    bad = damaged(whole, holes=[98, 99, 100, 101, 450], doubles=[600, 601], flips=flips)
    result = audit(written(bad, tmp_path / "bad", table_format), bootstrap, topic)
    assert result.findings == [
        gap(Kind.MISSING, topic, 0, 98, 101),
        *(Finding(Kind.DIFFERENT, topic, 0, offset, offset, 1, (field,)) for field, offset in flips.items()),
        gap(Kind.MISSING, topic, 0, 450, 450),
        Finding(Kind.DUPLICATED, topic, 0, 600, 601, 2, copies=2),
    ]
    assert result.differing == {Bucket(topic, 0, number) for number in (0, 1, 3, 4, 6)}
    assert len(result.unexplained) == len(result.findings)


def test_a_lake_that_has_what_the_log_lacks_is_found(spark: SparkSession, bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic, 1)
    topics.fill(bootstrap, topic, range(50))
    rows = archived(spark, bootstrap, topic)
    beyond = rows.where("offset < 3").withColumn("offset", rows["offset"] + 70)
    assert audit(rows.unionAll(beyond), bootstrap, topic).findings == [gap(Kind.BEYOND_LOG_END, topic, 0, 70, 72)]


def test_partitions_and_topics_that_only_the_lake_has_are_found(spark: SparkSession, bootstrap: str, topic: str) -> None:
    """Of a topic that was made anew with fewer partitions, and of one that is gone."""
    make_topic(bootstrap, topic, 1)
    topics.fill(bootstrap, topic, range(50))
    rows = archived(spark, bootstrap, topic)
    first = rows.where("offset < 3")
    partition = first.withColumn("partition", F.lit(2))
    gone, other = (first.withColumn("topic", F.lit(name)) for name in (f"{topic}.gone", "other"))
    settings = AuditSettings(topics=Topics(pattern=f"{topic}.*"), bucket_offsets=100)
    reached = {Partition(topic, 0): 50, Partition(topic, 3): 7, Partition("other", 0): 9}
    lake = LakeSide("the table", rows.unionAll(partition).unionAll(gone).unionAll(other), reached)
    assert compare(spark, ClusterSettings(bootstrap), lake, settings).findings == [
        gap(Kind.BEYOND_LOG_END, topic, 2, 0, 2),
        gap(Kind.BEYOND_LOG_END, topic, 3, 0, 6),
        gap(Kind.BEYOND_LOG_END, f"{topic}.gone", 0, 0, 2),
    ]


def test_a_pattern_is_javas_and_a_wrong_one_is_refused(spark: SparkSession, bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic, 1)
    topics.fill(bootstrap, topic, range(5))
    lake = LakeSide("the table", archived(spark, bootstrap, topic))
    quoted = AuditSettings(topics=Topics(pattern=rf"\Q{topic}\E"))
    assert compare(spark, ClusterSettings(bootstrap), lake, quoted).findings == []
    with pytest.raises(PipelineError, match=r"topic_pattern is 'a\(', which is no Java regular expression: Unclosed group"):
        compare(spark, ClusterSettings(bootstrap), lake, AuditSettings(topics=Topics(pattern="a(")))
