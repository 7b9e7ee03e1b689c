"""The Java packages of the pipeline: pinned Maven coordinates, which Spark resolves once, at setup, into an Ivy folder."""

from pathlib import Path

SCALA = "2.13"
CONNECTORS_VERSION = "4.0.0"
"""The last version of Spark's connectors that Maven Central has for Spark 4.0."""
DELTA_VERSION = "4.0.1"
COORDINATES = (
    f"org.apache.spark:spark-sql-kafka-0-10_{SCALA}:{CONNECTORS_VERSION}",
    f"org.apache.spark:spark-avro_{SCALA}:{CONNECTORS_VERSION}",
    f"io.delta:delta-spark_{SCALA}:{DELTA_VERSION}",
)
ROOT = Path(__file__).resolve().parents[3]
IVY_VARIABLE = "PENSTOCK_PIPELINE_IVY"
"""Environment variable that names another Ivy folder, e.g. that of an image."""
STAMP = "resolved.txt"
"""File in the Ivy folder that lists the coordinates whose jars are all there."""


def resolved_jars(ivy: Path) -> list[Path]:
    """The jars of all coordinates if setup has resolved exactly these; otherwise none."""
    stamp = ivy / STAMP
    if not stamp.exists() or stamp.read_text(encoding="utf-8").split() != list(COORDINATES):
        return []
    return sorted((ivy / "jars").glob("*.jar"))


def package_settings(ivy: Path) -> dict[str, str]:
    """Spark settings that bring the packages: the resolved jars, or else their names for Spark to resolve at start."""
    if jars := resolved_jars(ivy):
        return {"spark.jars": ",".join(map(str, jars))}
    return {"spark.jars.packages": ",".join(COORDINATES), "spark.jars.ivy": str(ivy)}
