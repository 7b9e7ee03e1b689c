"""Keys of jobs that write to a topic."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from services.pipeline.errors import InvalidJobFile
from services.pipeline.job_file.reader import TableReader
from services.pipeline.sink.options import SECURITY_OPTIONS
from services.pipeline.spark.cluster import ClusterSettings
from services.pipeline.spark.cluster_security import sink_options_of


@dataclass(frozen=True)
class Target:
    """`topic`: None if each row names its own. `options`: of the sink, e.g. `kafka.compression.type`."""

    topic: str | None
    options: Mapping[str, str] = field(default_factory=dict)

    def sink_options(self, cluster: ClusterSettings) -> dict[str, str]:
        topic = {"topic": self.topic} if self.topic is not None else {}
        protocol = {f"kafka.{name}": value for name, value in cluster.options.items() if name == "security.protocol"}
        secured = sink_options_of(cluster.security, SECURITY_OPTIONS)
        return {"kafka.bootstrap.servers": cluster.bootstrap_servers, **protocol, **secured, **topic, **self.options}


def read_target(table: TableReader, decided_by_the_job: Sequence[str]) -> Target:
    """`decided_by_the_job`: options of the sink that the job file may not have."""
    options = table.settings("sink")
    for name in options:
        if name.lower() in decided_by_the_job:
            raise InvalidJobFile(f"{table.name}.sink.{name} is not allowed: the job decides it")
    return Target(table.text("topic", None), options)
