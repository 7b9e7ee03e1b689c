"""Which runs have the gateways' shortcuts off: a fixed half of the compatibility tests, by their file, and of simulated clusters,
by their seed. Answers must be the same (`tests/gateway/test_shortcuts.py`), so the other checks of these runs hold both ways."""

import os
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Final, Generic, TypeVar

import pytest

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


class StartedOnce(Generic[T]):
    """What tests with shortcuts share, and what those without do: each is started by the first of them."""

    def __init__(self, start: Callable[[], AbstractContextManager[T]]) -> None:
        self._start = start
        self._running: dict[bool, tuple[T, ExitStack]] = {}

    def of(self, shortcuts: bool) -> T:
        if shortcuts not in self._running:
            with ExitStack() as stack:
                started = stack.enter_context(self._start())
                self._running[shortcuts] = started, stack.pop_all()
        return self._running[shortcuts][0]

    def end_all_but(self, shortcuts: bool | None) -> None:
        """`None`: all. What is asked for again starts anew."""
        with ExitStack() as ending:
            for each in [each for each in self._running if each != shortcuts]:
                ending.callback(self._running.pop(each)[1].close)


RUNNING: Final = pytest.StashKey[dict[str, StartedOnce[Any]]]()
"""By the name of the fixture."""


@contextmanager
def started_once(request: pytest.FixtureRequest, start: Callable[[], AbstractContextManager[T]]) -> Iterator[Callable[[bool], T]]:
    """For a fixture. All that runs ends with it, and in workers before (`end_what_is_not_shared`)."""
    running, name = request.config.stash.setdefault(RUNNING, {}), str(request.fixturename)
    shared = running[name] = StartedOnce(start)
    try:
        yield shared.of
    finally:
        del running[name]
        shared.end_all_but(None)


def end_what_is_not_shared(by: pytest.Item) -> None:
    """Ends what earlier files have started, and the file of this next test does not use."""
    names = {name for item in by.session.items if item.path == by.path for name in fixture_names(item)}
    for name, shared in by.config.stash.get(RUNNING, {}).items():
        shared.end_all_but(item_has_shortcuts(by) if name in names else None)


def item_has_shortcuts(item: pytest.Item) -> bool:
    return file_has_shortcuts(item.nodeid.partition("::")[0])


def fixture_names(item: pytest.Item) -> Collection[str]:
    names: Collection[str] = getattr(item, "fixturenames", ())
    return names
