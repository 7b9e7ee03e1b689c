"""The way into Spark's JVM, for what PySpark has no name of its own: Hadoop's file systems and Kafka's Java clients."""

from typing import Any

from pyspark.sql import SparkSession


def jvm(spark: SparkSession) -> Any:
    """Py4J's view of the JVM: `jvm(spark).java.util.HashMap()`."""
    return spark._jvm


def hadoop_configuration(spark: SparkSession) -> Any:
    """With the `spark.hadoop.*` settings of the session."""
    return jvm(spark).org.apache.spark.SparkContext.getOrCreate().hadoopConfiguration()
