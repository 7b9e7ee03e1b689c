"""The function that starts a job, by the dataclass of its kind."""

from collections.abc import Mapping
from typing import Any

from services.pipeline.job_file.job import Job

STARTERS: Mapping[type[Job], Any] = {}
