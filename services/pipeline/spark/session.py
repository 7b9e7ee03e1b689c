"""The SparkSession of a pipeline, made from the `[spark]` table of a job file."""

import os
import shutil
import sys
from pathlib import Path
from typing import TextIO

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from services.pipeline.errors import PipelineError
from services.pipeline.spark.failure_logs import leave_out_failures
from services.pipeline.spark.gateway import settings_from_outside, start_jvm
from services.pipeline.spark.packages import IVY_VARIABLE, ROOT, package_settings
from services.pipeline.spark.refusals import reason_of
from services.pipeline.spark.settings import FIXED, LOCAL, SparkSettings, is_local

SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""A variable of the environment that `spark-submit` sets: its JVM runs already, with the packages that it was given."""
SET_BY_SPARK_SUBMIT = ("spark.ui.showConsoleProgress",)
"""What `spark-submit`, which also starts the JVM of a plain Python process, sets where nobody has asked for it."""
EXTENSIONS, DELTA = "spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension"
DEFAULTS = {
    EXTENSIONS: DELTA,
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


def make_session(settings: SparkSettings, app_name: str = "penstock pipeline", output: TextIO | None = None) -> SparkSession:
    """Starts Spark's JVM, or takes that of `spark-submit`: once in a process. `output`: of the JVM.

    The job file goes before what `spark-submit` and `spark-defaults.conf` say, and these go before our defaults. Raises
    PipelineError without Java, and for what Spark refuses.
    """
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise PipelineError("there is no java on PATH: Spark needs Java 17 (apt-get install openjdk-17-jre-headless)")
    packages = {} if SUBMITTED in os.environ else package_settings(ivy_folder())
    from_file = {**packages, **settings.config, **FIXED, **({} if settings.master is None else {"spark.master": settings.master})}
    gateway = start_jvm(from_file, output)
    conf = settings_from_outside(gateway)
    given = {**{key: value for key, value in conf.getAll() if key not in SET_BY_SPARK_SUBMIT}, **from_file}
    master = given.get("spark.master", LOCAL)
    if is_local(master):
        # Workers, and the planners of data sources, run the interpreter that has the pipeline's packages.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    defaults = {**DEFAULTS, **(LOCAL_DEFAULTS if is_local(master) else {})}
    ours = {key: value for key, value in defaults.items() if key not in given}
    if (extensions := given.get(EXTENSIONS, DELTA)) != DELTA and DELTA not in extensions.split(","):
        ours[EXTENSIONS] = f"{DELTA},{extensions}"
    try:
        SparkContext(conf=conf.setAll([*given.items(), *ours.items()]).setMaster(master).setAppName(app_name), gateway=gateway)
        session = SparkSession.builder.config(map={**given, **ours}).getOrCreate()
    except (Py4JError, PySparkException) as error:
        said = f"Spark does not start with spark.master {master!r} and the settings of spark.config: {reason_of(error)}"
        raise PipelineError(said) from error
    session.sparkContext.setLogLevel("ERROR")
    leave_out_failures(session, master)
    return session
