"""Runs the pipeline's command line, and kills all of its processes at one step: `python -m tests.pipeline.killing STEP run FILE`.

A step is `before|after MODULE:CLASS.METHOD N [TEXT]`: SIGKILL for this process group, with Spark's JVM, at the N-th call; with a
text, at the N-th call that has it in its arguments, as Python shows them. The process must lead its group.
"""

import functools
import importlib
import itertools
import os
import signal
import sys
from typing import Any

from services.pipeline.__main__ import main


def kill_at(step: str) -> None:
    """Wraps the method. Production code knows nothing of it."""
    when, place, number, *text = step.split(maxsplit=3)
    module, _, path = place.partition(":")
    owner_name, _, name = path.partition(".")
    owner = getattr(importlib.import_module(module), owner_name)
    original, calls = getattr(owner, name), itertools.count(1)

    @functools.wraps(original)
    def killing(*arguments: Any, **keywords: Any) -> Any:
        is_counted = all(part in repr((arguments, keywords)) for part in text)
        is_due = is_counted and next(calls) == int(number)
        if is_due and when == "before":
            os.killpg(0, signal.SIGKILL)
        result = original(*arguments, **keywords)
        if is_due:
            os.killpg(0, signal.SIGKILL)
        return result

    setattr(owner, name, killing)


if __name__ == "__main__":
    assert os.getpgrp() == os.getpid(), "this program kills its process group, so it must lead one"
    kill_at(sys.argv[1])
    sys.exit(main(sys.argv[2:]))
