"""The session that every job gets."""

import subprocess
from types import SimpleNamespace

from pyspark.sql import SparkSession

from services.pipeline.spark.jvm import has_died


def test_dates_are_days_in_utc_and_delta_is_there(spark: SparkSession, tmp_path) -> None:  # type: ignore[no-untyped-def]
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    spark.range(3).write.format("delta").save(str(tmp_path / "table"))
    assert spark.read.format("delta").load(str(tmp_path / "table")).count() == 3


def test_a_jvm_that_was_killed_has_died() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        session = SimpleNamespace(sparkContext=SimpleNamespace(_gateway=SimpleNamespace(proc=process)))
        assert not has_died(session)
        process.kill()
        assert has_died(session)
