"""The session that every job gets."""

from types import SimpleNamespace

from pyspark.sql import SparkSession

from services.pipeline.spark.jvm import has_died


def test_dates_are_days_in_utc_and_delta_is_there(spark: SparkSession, tmp_path) -> None:  # type: ignore[no-untyped-def]
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    spark.range(3).write.format("delta").save(str(tmp_path / "table"))
    assert spark.read.format("delta").load(str(tmp_path / "table")).count() == 3


class DeadJvm:
    """Refuses the connection on which a call would be made."""

    @property
    def java(self) -> object:
        raise ConnectionRefusedError


def test_a_jvm_that_does_not_answer_has_died(spark: SparkSession) -> None:
    assert not has_died(spark)
    assert has_died(SimpleNamespace(_jvm=DeadJvm()))
