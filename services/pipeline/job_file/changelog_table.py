"""Jobs of the kind `table`: a compacted topic into a Delta table with the latest record of each key."""

from dataclasses import dataclass

from services.pipeline.job_file.archive import OnDataLoss
from services.pipeline.job_file.job import Job, LakeSettings
from services.pipeline.job_file.reader import TableReader
from services.pipeline.job_file.streams import StreamSettings, read_stream_settings, read_topics
from services.pipeline.job_file.value_schema import read_value_schema
from services.pipeline.spark.cluster import Topics
from services.pipeline.spark.value_schema import ValueSchema


@dataclass(frozen=True, kw_only=True)
class TableJob(Job):
    topics: Topics
    path: str
    stream: StreamSettings
    on_data_loss: OnDataLoss
    schema: ValueSchema | None

    @property
    def dead_letters_path(self) -> str:
        return f"{self.path}_dead_letters"


def read_table_job(table: TableReader, name: str, lake: LakeSettings) -> TableJob:
    return TableJob(
        name=name,
        topics=read_topics(table),
        path=table.path("path", f"{lake.path}/{name}"),
        stream=read_stream_settings(table, job=name, lake_path=lake.path),
        on_data_loss=table.choice("on_data_loss", ("stop", "continue"), "stop"),
        schema=read_value_schema(table),
    )
