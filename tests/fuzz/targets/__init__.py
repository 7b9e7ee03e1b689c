"""The targets. Each module has `check(data)`, which raises for a bug and for nothing else, and `seeds()`.

What an input's first bytes choose stands in the module's docstring. Seeds come from encoders and from recorded clients, by code.
"""

import importlib
from collections.abc import Callable, Iterator
from typing import Final, Protocol, cast


class Target(Protocol):
    check: Callable[[bytes], None]
    seeds: Callable[[], Iterator[bytes]]


RUNS: Final[dict[str, int]] = {
    "frames": 20_000,
    "requests": 30_000,
    "batches": 20_000,
    "rpc": 20_000,
    "tls_records": 20_000,
    "sasl": 10_000,
    "coordinator_records": 20_000,
    "log_files": 20_000,
    "log_directories": 400,
    "kafka_metadata": 20_000,
}
"""Each target, and its inputs in the short form, which takes some seconds."""


def target(name: str) -> Target:
    return cast(Target, importlib.import_module(f"tests.fuzz.targets.{name}"))
