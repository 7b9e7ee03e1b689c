"""What the archive of Spark's JVM is made from: a session that writes, reads and streams a little, as most tests do.

Its JVM ends after this process, and leaves the archive then. Their common output lasts until that has been done.
"""

import tempfile
from pathlib import Path

from services.pipeline.spark.session import make_session
from services.pipeline.spark.settings import SparkSettings

COLUMNS = "key STRING, number INT"


def main(folder: Path) -> None:
    session = make_session(SparkSettings("local[2]", {"spark.sql.warehouse.dir": str(folder / "warehouse")}), "archive")
    rows, totals, copies = (str(folder / name) for name in ("rows", "totals", "copies"))
    session.createDataFrame([("a", 1), ("b", 2)], COLUMNS).write.partitionBy("key").parquet(rows)
    session.read.parquet(rows).groupBy("key").count().write.format("delta").save(totals)
    stream = session.readStream.schema(COLUMNS).parquet(rows).writeStream.format("delta")
    stream.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start(copies).awaitTermination()
    assert session.read.format("delta").load(copies).join(session.read.format("delta").load(totals), "key").count() == 2
    session.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(scratch))
