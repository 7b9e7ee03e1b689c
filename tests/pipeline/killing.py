"""Runs the pipeline's command line, and kills processes of it at steps: `python -m tests.pipeline.killing STEP… run FILE`.

A step is `[executors] before|during|after MODULE:CLASS.METHOD N [TEXT]`: the N-th call; with a text, the N-th call that has it in
its arguments, as Python shows them. SIGKILL comes for this process group, with Spark's JVM, or else for all executors of this
driver on this machine; then stderr gets a line `killed STEP`. `during` needs a method of a table of the lake, and means: when a
new data file is there. The process must lead its group.
"""

import functools
import importlib
import itertools
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from services.pipeline.__main__ import main

EXECUTORS = "executors "
POLL_S = 0.001


def kill_driver() -> None:
    os.killpg(0, signal.SIGKILL)


def kill_executors() -> None:
    """Returns when they are gone. Their workers start new ones."""
    from pyspark import SparkContext

    driver = f":{SparkContext.getOrCreate().getConf().get('spark.driver.port')}"
    found = [pid for pid in Path("/proc").iterdir() if pid.name.isdigit() and _is_executor_of(driver, pid)]
    assert found, "the driver has no executor that could be killed"
    for pid in found:
        os.kill(int(pid.name), signal.SIGKILL)


def _is_executor_of(driver: str, process: Path) -> bool:
    try:
        arguments = (process / "cmdline").read_bytes().decode().split("\0")
    except OSError:
        return False  # it has ended
    return "--driver-url" in arguments and arguments[arguments.index("--driver-url") + 1].endswith(driver)


def kill_at(step: str) -> None:
    """Wraps the method. Production code knows nothing of it."""
    kill = kill_executors if step.startswith(EXECUTORS) else kill_driver
    when, place, number, *text = step.removeprefix(EXECUTORS).split(maxsplit=3)
    module, _, path = place.partition(":")
    owner_name, _, name = path.partition(".")
    owner = getattr(importlib.import_module(module), owner_name)
    original, calls = getattr(owner, name), itertools.count(1)

    def kill_and_say() -> None:
        kill()
        print(f"killed {step}", file=sys.stderr, flush=True)

    @functools.wraps(original)
    def killing(*arguments: Any, **keywords: Any) -> Any:
        is_counted = all(part in repr((arguments, keywords)) for part in text)
        is_due = is_counted and next(calls) == int(number)
        if is_due and when == "before":
            kill_and_say()
        if is_due and when == "during":
            return during(lambda: original(*arguments, **keywords), Path(arguments[0].path), kill_and_say)
        result = original(*arguments, **keywords)
        if is_due and when == "after":
            kill_and_say()
        return result

    setattr(owner, name, killing)


def during(write: Callable[[], Any], table: Path, kill: Callable[[], None]) -> Any:
    """Kills as soon as `write` has begun a data file in the table; not at all if it ends before that is seen."""
    before, ended = set(table.rglob("*.parquet")), threading.Event()

    def watch() -> None:
        while not ended.wait(POLL_S):
            if set(table.rglob("*.parquet")) - before:
                kill()
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        return write()
    finally:
        ended.set()
        watcher.join()


if __name__ == "__main__":
    assert os.getpgrp() == os.getpid(), "this program kills its process group, so it must lead one"
    steps = list(itertools.takewhile(lambda argument: argument != "run", sys.argv[1:]))
    for each in steps:
        kill_at(each)
    sys.exit(main(sys.argv[1 + len(steps) :]))
