"""The end of a process: what it leaves undone, and what it does not."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys, threading, time
from libs.runtime.ending import run_program

class Loud:
    def __del__(self):
        print("taken apart")

kept = Loud()

def main():
    try:
        {body}
    finally:
        print("closed")

run_program(main)
"""
BUFFERED = {**os.environ, "PYTHONUNBUFFERED": ""}
"""What a program prints leaves it at its end."""


def argv(body: str) -> list[str]:
    return [sys.executable, "-c", PROGRAM.format(body=body)]


def ended(body: str) -> tuple[int, str, str]:
    """The exit code of a program, and what it printed on both streams."""
    done = subprocess.run(argv(body), env=BUFFERED, capture_output=True, encoding="utf-8", timeout=60)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        ("return None", 0, ""),
        ("return 3", 3, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit(4)", 4, ""),
        ("sys.exit('gateway: no such file')", 1, "gateway: no such file\n"),
    ],
)
def test_a_program_ends_with_its_code_and_its_words_and_nothing_is_taken_apart(body: str, code: int, said: str) -> None:
    assert ended(body) == (code, "closed\n", said)


def test_an_unexpected_exception_has_its_traceback() -> None:
    code, printed, said = ended("raise ValueError('unexpected')")
    assert (code, printed) == (1, "closed\ntaken apart\n")
    assert said.endswith("ValueError: unexpected\n")


def test_a_thread_that_still_works_comes_to_its_end() -> None:
    body = "threading.Thread(target=lambda: (time.sleep(0.05), print('written'))).start()"
    assert ended(body) == (0, "closed\nwritten\ntaken apart\n", "")


def test_output_that_cannot_be_written_is_told_of() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(argv("print('metadata')"), env=BUFFERED, stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 120
    assert b"No space left on device" in done.stderr


def test_a_program_without_standard_output_ends_well() -> None:
    closed = ["sh", "-c", 'exec "$@" >&-', "sh", *argv("pass")]
    done = subprocess.run(closed, env=BUFFERED, stderr=subprocess.PIPE, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
