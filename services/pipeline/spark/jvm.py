"""The way into Spark's JVM, for what PySpark has no name of its own: Hadoop's file systems and Kafka's Java clients."""

from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession


def jvm(spark: SparkSession) -> Any:
    """Py4J's view of the JVM: `jvm(spark).java.util.HashMap()`."""
    return spark._jvm


def hadoop_configuration(spark: SparkSession) -> Any:
    """With the `spark.hadoop.*` settings of the session."""
    return jvm(spark).org.apache.spark.SparkContext.getOrCreate().hadoopConfiguration()


def has_died(spark: SparkSession) -> bool:
    """Whether the JVM no longer answers, e.g. because it was killed for its memory."""
    try:
        jvm(spark).java.lang.System.nanoTime()
    except (Py4JError, OSError):
        return True
    return False
