"""What Spark's checkpoint of a stream from Kafka says: the query's id, and the offsets of each batch."""

import json

from pyspark.sql import SparkSession

from services.pipeline.errors import PipelineError
from services.pipeline.spark.files import Files
from services.pipeline.spark.offset_ranges import OffsetRange, Partition

OWNER = "penstock-job.json"


class Checkpoint:
    """One checkpoint folder. Spark writes all of it but the file that says which job it belongs to."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self.path = path
        self._files = Files(spark, path)

    def claim(self, owner: dict[str, object]) -> None:
        """Writes down to which job the checkpoint belongs. Raises PipelineError if it belongs to another one."""
        if not self._files.exists(OWNER):
            if self._files.exists("metadata"):
                raise PipelineError(f"the checkpoint {self.path} belongs to a stream that is no job of the pipeline")
            self._files.create(OWNER, json.dumps(owner))
        found = json.loads(self._files.read(OWNER))
        for key, value in owner.items():
            if found.get(key) != value:
                raise PipelineError(
                    f"the checkpoint {self.path} belongs to another job: its {key} is {found.get(key)!r}, this job's is {value!r}"
                )

    def stream(self) -> str:
        """The id of the streaming query. It is there when the query has started."""
        return str(json.loads(self._files.read("metadata"))["id"])

    def planned_batch(self) -> int:
        """The last batch whose offsets were written; -1: none."""
        return max((int(name) for name in self._files.names("offsets")), default=-1)

    def ends(self, batch: int) -> dict[Partition, int]:
        """End offsets of a batch; of the batch before the first one, where the stream begins."""
        path = f"offsets/{batch}" if batch >= 0 else "sources/0/0"
        if not self._files.exists(path):
            raise PipelineError(f"the checkpoint {self.path} is incomplete: it has no {path}")
        text = self._files.read(path)
        found = json.loads(text[text.index("{") :].splitlines()[-1])
        return {(topic, int(number)): offset for topic, of_topic in found.items() for number, offset in of_topic.items()}

    def ranges(self, batch: int) -> dict[Partition, OffsetRange]:
        """What a batch reads. A partition that is new begins at 0."""
        before = self.ends(batch - 1)
        return {partition: OffsetRange(before.get(partition, 0), end) for partition, end in self.ends(batch).items()}
