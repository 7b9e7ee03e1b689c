"""The way into Spark's JVM, for what PySpark has no name of its own: Hadoop's file systems and Kafka's Java clients."""

import subprocess
from typing import Any

from pyspark.sql import SparkSession

DYING_S = 1.0


def jvm(spark: SparkSession) -> Any:
    """Py4J's view of the JVM: `jvm(spark).java.util.HashMap()`."""
    return spark._jvm


def hadoop_configuration(spark: SparkSession) -> Any:
    """With the `spark.hadoop.*` settings of the session."""
    return jvm(spark).org.apache.spark.SparkContext.getOrCreate().hadoopConfiguration()


def has_died(spark: SparkSession) -> bool:
    """Whether the JVM is gone, e.g. killed for its memory. A JVM that is dying may take a moment."""
    process = spark.sparkContext._gateway.proc
    try:
        process.wait(DYING_S)
    except subprocess.TimeoutExpired:
        return False
    return True
