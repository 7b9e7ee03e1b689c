"""What each kind of job has in common: its name in the job file, and the lake that its paths lie in."""

from dataclasses import dataclass
from typing import Literal

Format = Literal["parquet", "delta"]
FORMATS: tuple[Format, ...] = ("parquet", "delta")


@dataclass(frozen=True)
class LakeSettings:
    """The `[lake]` table. `path` is any path or URI that Spark writes to, without a slash at its end."""

    path: str
    format: Format = "parquet"


@dataclass(frozen=True, kw_only=True)
class Job:
    """The base of each kind's dataclass."""

    name: str
