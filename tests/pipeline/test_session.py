"""The session that every job gets."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pyspark
from py4j import protocol
from py4j.java_gateway import JavaPackage
from pyspark.sql import SparkSession

from services.pipeline.spark.gateway import KnownNames
from services.pipeline.spark.jvm import has_died, jvm
from tests.support.requirements import ROOT

SUBMITTED = """
import json
from services.pipeline.spark.session import make_session
from services.pipeline.spark.settings import SparkSettings
spark = make_session(SparkSettings(config={"spark.sql.shuffle.partitions": "7"}))
sql = ("spark.sql.shuffle.partitions", "spark.databricks.delta.snapshotPartitions", "spark.sql.session.timeZone")
ui = ("spark.ui.enabled", "spark.ui.showConsoleProgress")
print(json.dumps([spark.sparkContext.master, *map(spark.conf.get, (*sql, *ui))]))
spark.stop()
"""


def test_dates_are_days_in_utc_and_delta_is_there(spark: SparkSession, tmp_path) -> None:  # type: ignore[no-untyped-def]
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    spark.range(3).write.format("delta").save(str(tmp_path / "table"))
    assert spark.read.format("delta").load(str(tmp_path / "table")).count() == 3


class Asked(list[str]):
    """A connection to a JVM with packages, one class `Phaser`, and no other one."""

    gateway_property = SimpleNamespace(pool=None)
    converters = None

    def send_command(self, command: str) -> str:
        self.append(command.splitlines()[2])
        return f"{protocol.SUCCESS_CLASS}{self[-1]}" if self[-1].endswith("Phaser") else str(protocol.SUCCESS_PACKAGE)


def test_the_jvm_is_asked_once_for_a_class_and_again_for_one_that_it_does_not_have(spark: SparkSession) -> None:
    asked = Asked()
    java = KnownNames(JavaPackage("java", asked, protocol.DEFAULT_JVM_ID))
    assert java.util.concurrent.Phaser is java.util.concurrent.Phaser
    assert asked == ["java.util", "java.util.concurrent", "java.util.concurrent.Phaser"]
    assert java.util.NoSuch is not java.util.NoSuch
    assert asked[3:] == ["java.util.NoSuch"] * 2
    assert isinstance(jvm(spark), KnownNames)


class DeadJvm:
    """Refuses the connection on which a call would be made."""

    @property
    def java(self) -> object:
        raise ConnectionRefusedError


def test_a_jvm_that_does_not_answer_has_died(spark: SparkSession) -> None:
    assert not has_died(spark)
    assert has_died(SimpleNamespace(_jvm=DeadJvm()))


def test_what_spark_submit_says_goes_before_our_defaults_and_behind_the_job_file(tmp_path: Path) -> None:
    (tmp_path / "submitted.py").write_text(SUBMITTED, encoding="utf-8")
    given = {
        "spark.sql.shuffle.partitions": "5",
        "spark.databricks.delta.snapshotPartitions": "3",
        "spark.sql.session.timeZone": "CET",
    }
    options = [part for key, value in given.items() for part in ("--conf", f"{key}={value}")]
    done = subprocess.run(
        [
            str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
            "--master",
            "local[3]",
            *options,
            str(tmp_path / "submitted.py"),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        encoding="utf-8",
        timeout=280,
        check=True,
    )
    assert json.loads(done.stdout.splitlines()[-1]) == ["local[3]", "7", "3", "UTC", "false", "false"]
