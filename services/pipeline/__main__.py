"""The command line of the pipeline: `run FILE [JOB…]`, `check FILE`, `status FILE`.

Jobs run in the file's order. One that ends by itself is waited for; one that goes on runs beside those after it. When one fails,
all end.
"""

import argparse
import io
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from services.pipeline.errors import PipelineError
from services.pipeline.job_file.file import JobFile, read_job_file
from services.pipeline.job_file.streams import StreamSettings
from services.pipeline.job_file.summaries import summary_of


def check(file: JobFile) -> None:
    """Says what would run. Needs neither Spark nor a cluster."""
    for name, job in file.jobs.items():
        print(f"{name}: {summary_of(job)}")


def status(file: JobFile) -> None:
    """One line for each stream and topic: its last batch, lag and freshness. It asks the cluster, and needs no Spark."""
    from services.pipeline.observing.status import GroupOf, status_lines

    found = {name: getattr(job, "stream", None) for name, job in file.jobs.items()}
    streams = {name: stream for name, stream in found.items() if isinstance(stream, StreamSettings)}
    groups = {name: GroupOf(stream.group, stream.checkpoint) for name, stream in streams.items()}
    print("\n".join(status_lines(file.cluster, groups)))


def run(file: JobFile, names: list[str]) -> signal.Signals | None:
    """Returns when all jobs have ended. Raises PipelineError when one has failed; that, SIGTERM and Ctrl-C end the others.

    Returns the signal that has ended them, if one has.
    """
    jobs = file.chosen(names)
    from services.pipeline.jobs.kinds import STARTERS  # PySpark takes a second to import, and `check` does without
    from services.pipeline.jobs.running import RunningStream, Surroundings, wait_for_all
    from services.pipeline.jobs.stopping import StopSignals
    from services.pipeline.observing.telemetry import start_telemetry
    from services.pipeline.spark.jvm import has_died
    from services.pipeline.spark.session import make_session

    telemetry = start_telemetry(file.telemetry)
    print(f"starting Spark, master {file.spark.master}", flush=True)
    surroundings = Surroundings(make_session(file.spark), file.cluster, file.lake, telemetry)
    signals = StopSignals(surroundings.spark.sparkContext.cancelAllJobs)
    signals.listen()
    going_on: list[RunningStream] = []

    def stop() -> None:
        signals.wait_until_stopped()
        for running in going_on:
            running.stop()
        telemetry.close()
        surroundings.spark.stop()

    try:
        for job in jobs:
            if signals.received:
                break
            running = STARTERS[type(job)](job, surroundings)
            signals.add(running)
            if running.ends:
                running.wait()
                print(f"{job.name}: done", flush=True)
            else:
                print(f"{job.name}: goes on until it is stopped", flush=True)
                going_on.append(running)
        wait_for_all(going_on)
    except Exception as error:
        if not isinstance(error, PipelineError) and has_died(surroundings.spark):
            raise PipelineError("Spark's JVM has died, perhaps killed for its memory; the next run goes on") from error
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
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    given = parse(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        file = read_job_file(given.file)
        if given.command == "check":
            check(file)
        elif given.command == "status":
            status(file)
        else:
            stopped_by = run(file, given.jobs)
            if stopped_by is not None:
                print(f"penstock pipeline: {stopped_by.name} has stopped the jobs; the next run goes on", file=sys.stderr)
                return 128 + stopped_by
    except PipelineError as error:
        print(f"penstock pipeline: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    if isinstance(sys.stdout, io.TextIOWrapper):  # a locale may lack a character of a path
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(main())
