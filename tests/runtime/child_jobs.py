"""Jobs that tests run in child processes."""

import os
import signal
import time
from pathlib import Path

from libs.runtime.children import Report


def add_one(argument: int, report: Report) -> tuple[int, int]:
    report(argument * 10)
    return argument + 1, os.getpid()


def refuse(argument: str, report: Report) -> None:
    raise ValueError(argument)


def die(argument: int, report: Report) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def stay(argument: str, report: Report) -> None:
    Path(argument).write_text(str(os.getpid()), encoding="utf-8")
    signal.pause()


def wait_for(argument: tuple[str, str], report: Report) -> None:
    Path(argument[0]).touch()
    while not Path(argument[1]).exists():
        time.sleep(0.001)


def echo(argument: bytes, report: Report) -> bytes:
    return argument


def niceness(argument: None, report: Report) -> int:
    return os.nice(0)
