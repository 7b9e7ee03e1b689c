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


def main() -> None:
    name, *rest = sys.argv[1:]
    logging.disable()  # what is refused may be logged, millions of times
    with atheris.instrument_imports(include=["libs", "services"]):
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
