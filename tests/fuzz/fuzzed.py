"""One target under atheris: `python -m tests.fuzz.fuzzed TARGET CORPUS libFuzzer's options…`. It ends when libFuzzer does.

An input that takes too much CPU is a bug as well. Memory is bounded by libFuzzer's own limit.
"""

import logging
import sys
import time
from collections.abc import Callable

import atheris

INPUT_CPU_S_MAX = 2.0
"""Of one input, which is at most some KB. Instrumented code takes several times as long."""
UNTOUCHED = {
    "log_directories": [
        f"libs.commitlog.files.{name}"
        for name in ("durable_files", "file_names", "filesystem", "mappings", "open_files", "page_cache", "sync", "writeback")
    ]
}
"""Modules of a target that see names and descriptors only, which no input changes: what they do tells nothing of an input."""


def main() -> None:
    name, *rest = sys.argv[1:]
    logging.disable()  # what is refused may be logged, millions of times
    with atheris.instrument_imports(include=["libs", "services"], exclude=UNTOUCHED.get(name, [])):
        from tests.fuzz.targets import target

        check = target(name).check
    atheris.Setup([sys.argv[0], *rest], within_bounds(check))
    atheris.Fuzz()


def within_bounds(check: Callable[[bytes], None]) -> Callable[[bytes], None]:
    clock = time.thread_time

    def bounded(data: bytes) -> None:
        began = clock()
        check(data)
        assert clock() - began < INPUT_CPU_S_MAX, f"{len(data)} bytes took {clock() - began:.1f} s of CPU"

    return bounded


if __name__ == "__main__":
    main()
