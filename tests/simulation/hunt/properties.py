"""The property tests with random examples. Elsewhere their examples are always the same (`tests/conftest.py`)."""

import os
import re
import subprocess
import sys

from tests.support.requirements import ROOT

ALL = ("tests", "--ignore=tests/pipeline")
TESTS_FAILED = 1


class TestsDoNotRun(Exception):
    """pytest ended otherwise than by tests that fail: nobody learns anything of this seed."""

    __test__ = False


_FAILED = re.compile(r"^(?:FAILED|ERROR) (.*)$", re.MULTILINE)


def violation_of(seed: int, tests: tuple[str, ...] = ALL) -> str:
    """The tests that fail with Hypothesis' `seed`. "": none does. Raises TestsDoNotRun."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--properties", "--hypothesis-profile=hunt"]
    command += [f"--hypothesis-seed={seed}", *tests]
    wide = {**os.environ, "COLUMNS": "500"}  # else pytest cuts the reasons off
    done = subprocess.run(
        command, cwd=ROOT, env=wide, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", check=False
    )
    if done.returncode == 0:
        return ""
    if done.returncode != TESTS_FAILED:
        raise TestsDoNotRun(f"pytest ended with {done.returncode}: {(done.stdout + done.stderr)[-3000:]}")
    return "; ".join(line.replace(" - ", ": ", 1) for line in _FAILED.findall(done.stdout))


def replay(seed: int, story: str) -> str:
    """The same for the file of the test that a former violation names first."""
    return violation_of(seed, (story.partition("::")[0],))
