"""Which runs have the gateways' shortcuts off: a fixed half of the compatibility tests, by their file, and of simulated clusters,
by their seed. Answers must be the same (`tests/gateway/test_shortcuts.py`), so the other checks of these runs hold both ways."""

import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Final, TypeVar

T = TypeVar("T")

COMPAT: Final = "tests/compat/"
SWITCH: Final = "PENSTOCK_SHORTCUTS"


def has_shortcuts(seed: int) -> bool:
    return seed % 2 == 0


def file_has_shortcuts(path: str) -> bool:
    """`path` from the root of the repository."""
    return not path.startswith(COMPAT) or has_shortcuts(zlib.crc32(path.encode()))


def settings_of_this_test() -> Mapping[str, str]:
    """The settings for a cluster that is started while this test runs, if any does."""
    path = os.environ.get("PYTEST_CURRENT_TEST", "").partition("::")[0]
    return {} if file_has_shortcuts(path) else {SWITCH: "off"}


@contextmanager
def started_once(start: Callable[[], AbstractContextManager[T]]) -> Iterator[Callable[[bool], T]]:
    """What tests with shortcuts share, and what those without do: each is started by the first of them, and all end together."""
    running: dict[bool, T] = {}
    with ExitStack() as stack:

        def of(shortcuts: bool) -> T:
            if shortcuts not in running:
                running[shortcuts] = stack.enter_context(start())
            return running[shortcuts]

        yield of
