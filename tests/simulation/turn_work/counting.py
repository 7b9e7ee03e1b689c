"""The work of a call, in numbers that are the same on every machine: bytecode instructions, and bytes allocated at the peak.

Loops in Python show in the first. Copies that the interpreter makes in C (`list(d)`, `sorted`, `b"".join`) show in the second.
"""

import gc
import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

ARENA_BYTES = 1 << 20
"""The interpreter takes memory for small objects in arenas. Which turn needs the next one is chance."""


class Work(NamedTuple):
    instructions: int
    allocated_bytes: int


def work_of(call: Callable[[], object]) -> Work:
    """The work of one call. It runs the call, which takes about fifty times as long as it would."""
    instructions = 0

    def count(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal instructions
        if event == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        elif event == "opcode":
            instructions += 1
        return count

    gc.collect()
    gc.disable()
    tracer = sys.gettrace()
    tracemalloc.start()
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    sys.settrace(count)
    try:
        call()
    finally:
        sys.settrace(tracer)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        gc.enable()
    allocated = peak - before
    return Work(instructions, allocated - ARENA_BYTES if allocated > ARENA_BYTES else allocated)
