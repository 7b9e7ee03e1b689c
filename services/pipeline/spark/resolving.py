"""Downloads the pipeline's Java packages once: `python -m services.pipeline.spark.resolving`.

Spark resolves them from Maven by name, into the Ivy folder. Then the stamp is written, and sessions start without the network.
"""

import os

from pyspark.sql import SparkSession

from services.pipeline.spark.packages import COORDINATES, STAMP, resolved_jars
from services.pipeline.spark.session import ivy_folder

OPTIONS = "SPARK_SUBMIT_OPTS"
SHORT_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""The JVM lives for seconds, and never gets back what its second compiler spends."""


def resolve() -> None:
    ivy = ivy_folder()
    if resolved_jars(ivy):
        return
    os.environ.setdefault(OPTIONS, SHORT_JVM)
    ivy.mkdir(parents=True, exist_ok=True)
    settings = {"spark.jars.packages": ",".join(COORDINATES), "spark.jars.ivy": str(ivy), "spark.ui.enabled": "false"}
    SparkSession.builder.master("local[1]").config(map=settings).getOrCreate().stop()
    (ivy / STAMP).write_text("\n".join(COORDINATES), encoding="utf-8")


if __name__ == "__main__":
    resolve()
