"""The log of one run: what Spark's JVM and Python's loggers have to say, so that the terminal shows the jobs' own lines only."""

import logging
import threading
import time
from pathlib import Path
from typing import TextIO

from services.pipeline.errors import PipelineError

TERMINAL = "-"
LARGE_BYTES = 16 << 20
"""A log of that size moves to `….1` when a run begins."""


def open_run_log(path: str | None, job_file: Path) -> TextIO | None:
    """The open log, to which this run adds; by default beside the job file. None: the terminal, where `-` asks for it, or where
    the folder of the job file cannot be written to. Raises PipelineError for another path that cannot be written."""
    if path == TERMINAL:
        return None
    chosen = Path(path) if path is not None else job_file.with_suffix(".log")
    try:
        if chosen.exists() and chosen.stat().st_size > LARGE_BYTES:
            chosen.replace(chosen.with_name(f"{chosen.name}.1"))
        log = chosen.open("a", encoding="utf-8", buffering=1)
    except OSError as error:
        if path is None:
            return None
        raise PipelineError(f"--log is {path!r}; allowed is a file that can be written, or '-' ({error.strerror})") from None
    log.write(f"=== {time.strftime('%Y-%m-%d %H:%M:%S')} {job_file}\n")
    return log


def log_into(log: TextIO | None) -> None:
    """Python's loggers, warnings, and errors of threads go there; None: to stderr."""
    logging.basicConfig(stream=log, level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s", force=True)
    logging.captureWarnings(True)
    threading.excepthook = _log_error_of_a_thread


def _log_error_of_a_thread(failed: threading.ExceptHookArgs) -> None:
    error = failed.exc_value
    logging.getLogger(__name__).error("%s", failed.thread, exc_info=error if error is not None else failed.exc_type())
