"""A large topic, archived and then audited by the jobs of one file: are 10 GB possible with a heap of 2 GB? Prints one JSON line.

`.tools/pipeline/venv/bin/python -m tests.bench.pipeline.large_lake [--records 50000000] [--driver-memory 2g]`

The topic has one replica. `jvm_bytes_max` is the most memory that Spark's process had, with what lies outside of its heap.
"""

import os
import sys
import time
from pathlib import Path

from services.pipeline.job_file.file import parse_job_file
from tests.bench.pipeline.subjects import RECORD_BYTES, TOPIC, folder, parser, penstock, print_line, session
from tests.pipeline.jobs_in_process import job_file, run_job


def jobs(directory: Path) -> str:
    return f"""
[jobs.all]
kind = "archive"
topics = ["{TOPIC}"]
[jobs.check]
kind = "audit"
archive = "all"
topics = ["{TOPIC}"]
report = "{directory}/report"
"""


def jvm_bytes_max() -> int:
    """Of the JVM that this process has started."""
    statuses = [file.read_text(encoding="utf-8") for file in Path(f"/proc/{os.getpid()}/task").glob("*/children")]
    for pid in " ".join(statuses).split():
        fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines())
        if fields["Name"].strip() == "java":
            return int(fields["VmHWM"].split()[0]) * 1024
    raise AssertionError("there is no JVM")


def main(arguments: list[str]) -> None:
    given = parser(__doc__ or "", 50_000_000, rounds=None).parse_args(arguments)
    with folder() as directory, penstock(given.records) as bootstrap:
        spark = session(given.driver_memory)
        file = parse_job_file(job_file(bootstrap, directory / "lake", jobs(directory)))
        seconds = {}
        for name, job in file.jobs.items():
            began = time.monotonic()
            run_job(spark, file, job)
            seconds[name] = time.monotonic() - began
        figures = {
            "records": given.records,
            "bytes": given.records * RECORD_BYTES,
            "archive_s": round(seconds["all"], 1),
            "audit_s": round(seconds["check"], 1),
            "driver_memory": given.driver_memory,
            "jvm_bytes_max": jvm_bytes_max(),
        }
        spark.stop()
    print_line("large lake", figures)


if __name__ == "__main__":
    main(sys.argv[1:])
