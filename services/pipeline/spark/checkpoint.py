"""What Spark's checkpoint of a stream from Kafka says: the query's id, and the offsets of each batch."""

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from services.pipeline.errors import PipelineError
from services.pipeline.spark.files import Files
from services.pipeline.spark.offset_ranges import OffsetRange, Partition

OWNER = "penstock-job.json"
FIRST_OFFSETS = "sources/0/0"


class Checkpoint:
    """One checkpoint folder. Spark writes all of it but the file that says which job it belongs to."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self.path = path
        self._files = Files(spark, path)
        self.location = self._files.folder
        """The path as a URI."""

    def claim(self, owner: dict[str, object]) -> None:
        """Writes down to which job the checkpoint belongs. Raises PipelineError if it belongs to another one."""
        if not self._files.exists(OWNER):
            if self._files.exists("metadata"):
                raise PipelineError(f"the checkpoint {self.path} belongs to a stream that is no job of the pipeline")
            self._files.create(OWNER, json.dumps(owner))
        found = self._document(OWNER)
        for key, value in owner.items():
            if found.get(key) != value:
                raise PipelineError(
                    f"the checkpoint {self.path} belongs to another job: its {key} is {found.get(key)!r}, this job's is {value!r}"
                )

    def claim_topics(self, ids: Mapping[str, str]) -> None:
        """Writes down the ids of topics, by name. Raises PipelineError if the stream has read another topic of one's name."""
        owner = self._document(OWNER)
        known = owner.get("topics", {}) if self.has_begun() else {}
        for name, topic_id in sorted(ids.items()):
            if known.get(name, topic_id) != topic_id:
                raise PipelineError(
                    f"the topic {name} was made anew: the checkpoint {self.path} has read the one of id {known[name]}, and this "
                    f"one's is {topic_id}; give the job a new checkpoint and a new path"
                )
        if (now := {**known, **ids}) != owner.get("topics"):
            self._files.create(OWNER, json.dumps({**owner, "topics": now}), overwrite=True)

    def stream(self) -> str:
        """The id of the streaming query. It is there when the query has started."""
        found = self._document("metadata")
        if "id" not in found:
            raise self._damaged("metadata")
        return str(found["id"])

    def has_begun(self) -> bool:
        """Whether the stream has written down where it begins."""
        return self._files.exists(FIRST_OFFSETS)

    def planned_batch(self) -> int:
        """The last batch whose offsets were written; -1: none."""
        return max(self._numbers("offsets"), default=-1)

    def committed_batch(self) -> int:
        """The last batch that the stream has finished; -1: none."""
        return max(self._numbers("commits"), default=-1)

    def finished(self) -> tuple[int, dict[Partition, int]]:
        """The last batch that the stream has finished, and its end offsets; -1 and none before the first."""
        batch = self.committed_batch()
        return batch, self.ends(batch) if batch >= 0 else {}

    def ends(self, batch: int) -> dict[Partition, int]:
        """End offsets of a batch; of the batch before the first one, where the stream begins.

        Of a partition that several inputs of the query read, the end of the one that is ahead.
        """
        ends: dict[Partition, int] = {}
        for of_input in self._inputs(batch):
            ends.update({partition: max(end, ends.get(partition, 0)) for partition, end in of_input.items()})
        return ends

    def ranges(self, batch: int) -> dict[Partition, OffsetRange]:
        """What a batch reads. A partition that is new begins at 0. Ranges of several inputs are joined."""
        ranges: dict[Partition, OffsetRange] = {}
        for before, after in zip(self._inputs(batch - 1), self._inputs(batch), strict=True):
            for partition, end in after.items():
                of_one = OffsetRange(before.get(partition, 0), end)
                ranges[partition] = of_one.joined(ranges.get(partition, of_one))
        return ranges

    def _inputs(self, batch: int) -> list[dict[Partition, int]]:
        """The end offsets of each input of the query, in Spark's order."""
        if batch >= 0:  # a line for the format, one for the batch, one for each input
            path = f"offsets/{batch}"
            lines = self._read(path).splitlines()
            if len(lines) < 3:
                raise self._damaged(path)
            return [self._offsets(path, line) for line in lines[2:]]
        paths = [f"sources/{number}/0" for number in sorted(self._numbers("sources")) or [0]]
        return [self._offsets(path, "".join(self._read(path).splitlines()[-1:])) for path in paths]

    def _offsets(self, path: str, text: str) -> dict[Partition, int]:
        """Of one input, as a line of that file has them; none if Spark had not asked it yet."""
        try:
            found = json.loads(text[text.index("{") :]) if "{" in text else {}
            return {(topic, int(number)): offset for topic, of_topic in found.items() for number, offset in of_topic.items()}
        except (AttributeError, ValueError):
            raise self._damaged(path) from None

    def _numbers(self, folder: str) -> list[int]:
        """Spark's files there are called by numbers; others do not count."""
        return [int(name) for name in self._files.names(folder) if name.isdecimal()]

    def _document(self, path: str) -> dict[str, Any]:
        try:
            found = json.loads(self._read(path))
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise self._damaged(path)
        return found

    def _damaged(self, path: str) -> PipelineError:
        return PipelineError(
            f"the checkpoint {self.path} is damaged: {path} is not what was written there; put it back, "
            "or give the job a new checkpoint and a new path"
        )

    def _read(self, path: str) -> str:
        if not self._files.exists(path):
            raise PipelineError(f"the checkpoint {self.path} is incomplete: it has no {path}")
        return self._files.read(path)
