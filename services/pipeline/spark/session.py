"""The SparkSession of a pipeline, made from the `[spark]` table of a job file."""

import os
import shutil
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from services.pipeline.errors import PipelineError
from services.pipeline.spark.failure_logs import leave_out_failures
from services.pipeline.spark.packages import IVY_VARIABLE, ROOT, package_settings
from services.pipeline.spark.settings import FIXED, SparkSettings

DEFAULTS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.ui.enabled": "false",
    # Errors that are not ours are printed in full, since Spark's own lines of them are left out.
    "spark.sql.pyspark.jvmStacktrace.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
    # Kafka's timestamps have milliseconds; Spark's default Parquet type, INT96, has no statistics and is deprecated.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Tasks that write several dates keep a file open for each, and need not sort their rows by date first.
    "spark.sql.maxConcurrentOutputFileWriters": "16",
}
LOCAL_DEFAULTS = {
    "spark.sql.shuffle.partitions": "4",
    # Delta reads its log with 50 tasks by default.
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
"""More settings where `master` is `local…`; a cluster keeps Spark's own values."""


def ivy_folder() -> Path:
    return Path(os.environ.get(IVY_VARIABLE, ROOT / ".tools" / "pipeline" / "ivy"))


def make_session(settings: SparkSettings, app_name: str = "penstock pipeline") -> SparkSession:
    """Starts Spark's JVM, or gives the session that this process has. Raises PipelineError without Java."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise PipelineError("there is no java on PATH: Spark needs Java 17 (apt-get install openjdk-17-jre-headless)")
    if settings.master.startswith("local"):
        # Workers, and the planners of data sources, run the interpreter that has the pipeline's packages.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    local = LOCAL_DEFAULTS if settings.master.startswith("local") else {}
    builder = SparkSession.builder.master(settings.master).appName(app_name)
    for key, value in {**DEFAULTS, **FIXED, **local, **package_settings(ivy_folder()), **settings.config}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    leave_out_failures(session, settings.master)
    return session
