"""The session that every job gets."""

from pyspark.sql import SparkSession


def test_dates_are_days_in_utc_and_delta_is_there(spark: SparkSession, tmp_path) -> None:  # type: ignore[no-untyped-def]
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    spark.range(3).write.format("delta").save(str(tmp_path / "table"))
    assert spark.read.format("delta").load(str(tmp_path / "table")).count() == 3
