"""The `[spark]` table of a job file. It needs no PySpark."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from services.pipeline.errors import InvalidJobFile

FIXED = {"spark.sql.session.timeZone": "UTC"}
"""What a job file may not change: dates of the lake are days in UTC."""
LOCAL = "local[*]"


@dataclass(frozen=True)
class SparkSettings:
    master: str | None = None
    """None: what `spark-submit` or `spark-defaults.conf` say, or else `LOCAL`."""
    config: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for key, value in FIXED.items():
            if self.config.get(key, value) != value:
                raise InvalidJobFile(f"spark.config has {key} = {self.config[key]!r}; the lake's dates need {value!r}")


def is_local(master: str) -> bool:
    """Whether the driver's own process runs the tasks."""
    return master.startswith("local")
