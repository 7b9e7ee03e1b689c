"""The command line of the pipeline: `run FILE [JOB…]`, `check FILE`, `status FILE`.

Jobs run in the file's order. One that ends by itself is waited for; one that goes on runs beside those after it. When one fails,
all end.
"""

import argparse
import importlib.util
import io
import logging
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TextIO

from services.pipeline.errors import PipelineError, first_line
from services.pipeline.job_file.file import JobFile, read_job_file
from services.pipeline.job_file.streams import StreamSettings
from services.pipeline.job_file.summaries import summary_of
from services.pipeline.jobs.run_log import log_into, open_run_log
from services.pipeline.spark.settings import SparkSettings

SIGNAL_WITHIN_S = 1.0
"""How much earlier the end of a JVM that a signal has ended may be seen than the signal itself."""


class Terminated(KeyboardInterrupt):
    """SIGTERM before the jobs have begun."""


def check(file: JobFile) -> None:
    """Says what would run. Needs no cluster, and Spark only for SQL, schemas and patterns. Raises PipelineError."""
    refuse_by_spark(file)
    for name, job in file.jobs.items():
        print(f"{name}: {summary_of(job)}")


def refuse_by_spark(file: JobFile) -> None:
    """Asks Spark of what only Spark understands, if there is such a thing, and if Spark is there."""
    if importlib.util.find_spec("pyspark") is None or shutil.which("java") is None:
        print("penstock pipeline: SQL, schemas and patterns are not checked, since PySpark or Java is missing", file=sys.stderr)
        return
    from services.pipeline.jobs.checking import needs_spark, refuse_by_spark
    from services.pipeline.spark.session import make_session

    if not any(map(needs_spark, file.jobs.values())):
        return
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        spark = make_session(SparkSettings("local[1]", file.spark.config), output=nowhere)
        try:
            refuse_by_spark(spark, file)
        finally:
            spark.stop()


def status(file: JobFile) -> None:
    """One line for each stream and topic: its last batch, lag and freshness. It asks the cluster, and needs no Spark."""
    from services.pipeline.observing.status import GroupOf, status_lines

    found = {name: getattr(job, "stream", None) for name, job in file.jobs.items()}
    streams = {name: stream for name, stream in found.items() if isinstance(stream, StreamSettings)}
    groups = {name: GroupOf(stream.group, stream.checkpoint) for name, stream in streams.items()}
    print("\n".join(status_lines(file.cluster, groups)))


def run(file: JobFile, names: list[str], log: TextIO | None = None) -> signal.Signals | None:
    """Returns when all jobs have ended. Raises PipelineError when one has failed; that, SIGTERM and Ctrl-C end the others.

    Returns the signal that has ended them, if one has. `log` gets what Spark's JVM prints.
    """
    jobs = file.chosen(names)
    from services.pipeline.jobs.failures import in_one_sentence
    from services.pipeline.jobs.kinds import STARTERS  # PySpark takes a second to import, and `check` does without
    from services.pipeline.jobs.running import Environment, RunningStream, wait_for_all
    from services.pipeline.jobs.stopping import StopSignals
    from services.pipeline.observing.telemetry import start_telemetry
    from services.pipeline.spark.jvm import has_died
    from services.pipeline.spark.session import make_session

    telemetry = start_telemetry(file.telemetry)
    print(f"starting Spark{f', its log is {log.name}' if log else ''}", flush=True)
    environment = Environment(make_session(file.spark, output=log), file.cluster, file.lake, telemetry)
    print(f"Spark runs, master {environment.spark.sparkContext.master}", flush=True)
    signals = StopSignals(environment.spark.sparkContext.cancelAllJobs)
    signals.listen()
    going_on: list[RunningStream] = []

    def stop() -> None:
        signals.wait_until_stopped()
        for running in going_on:
            running.stop()
        telemetry.close()
        environment.spark.stop()

    try:
        for job in jobs:
            if signals.received:
                break
            with in_one_sentence(job.name):
                running = STARTERS[type(job)](job, environment)
            signals.add(running)
            if running.ends:
                with in_one_sentence(job.name):
                    running.wait()
                print(f"{job.name}: done", flush=True)
            else:
                print(f"{job.name}: goes on until it is stopped", flush=True)
                going_on.append(running)
        wait_for_all(going_on)
    except Exception as error:
        died = has_died(environment.spark)
        if died and not signals.has_come(SIGNAL_WITHIN_S):
            raise PipelineError("Spark's JVM has died, perhaps killed for its memory; the next run goes on") from error
        if not died:
            stop()
        if signals.received is None:  # a job that is stopped in the middle may fail
            raise
    else:
        stop()
    return signals.received


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m services.pipeline", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, help_text in (
        ("run", "run jobs of a file: all, or those that are named"),
        ("check", "say what is wrong with a file, or what it would run"),
        ("status", "show how far each stream of a file has come"),
    ):
        command = commands.add_parser(name, help=help_text)
        command.add_argument("file", type=Path)
        if name == "run":
            command.add_argument("jobs", nargs="*", metavar="JOB")
            command.add_argument("--log", help="where Spark's messages go: a file, or '-'; by default beside FILE, as FILE.log")
    return parser.parse_args(arguments)


def terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated


def main(arguments: Sequence[str] | None = None) -> int:
    given = parse(arguments)
    signal.signal(signal.SIGTERM, terminate)
    log: TextIO | None = None
    try:
        file = read_job_file(given.file)
        if given.command == "check":
            check(file)
        elif given.command == "status":
            status(file)
        else:
            log = open_run_log(given.log, given.file)
            log_into(log)
            stopped_by = run(file, given.jobs, log)
            if stopped_by is not None:
                return say_stopped(stopped_by)
    except PipelineError as error:
        logging.getLogger(__name__).debug("%s", error, exc_info=True)
        print(f"penstock pipeline: {error}{place_of(log)}", file=sys.stderr)
        return 1
    except Terminated:
        return say_stopped(signal.SIGTERM)
    except KeyboardInterrupt:
        return say_stopped(signal.SIGINT)
    except Exception as error:
        logging.getLogger(__name__).exception("no job expects this")
        print(f"penstock pipeline: {type(error).__name__}: {first_line(error)}{place_of(log)}", file=sys.stderr)
        return 1
    return 0


def say_stopped(number: signal.Signals) -> int:
    """Returns the exit code."""
    print(f"penstock pipeline: {number.name} has stopped the jobs; the next run goes on", file=sys.stderr)
    return 128 + number


def place_of(log: TextIO | None) -> str:
    return "" if log is None else f" (log: {log.name})"


if __name__ == "__main__":
    if isinstance(sys.stdout, io.TextIOWrapper):  # a locale may lack a character of a path
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(main())
