"""What test files share runs while a worker's files need it, and no longer."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.shortcut_halves import RUNNING, end_what_is_not_shared, file_has_shortcuts, started_once

FILES = [f"tests/compat/{number}.py" for number in range(9)]
WITH, WITHOUT = (next(path for path in FILES if file_has_shortcuts(path) == shortcuts) for shortcuts in (True, False))


class Machine:
    """Counts what runs. `ends`: what is raised at an end."""

    def __init__(self) -> None:
        self.started = self.running = 0
        self.ends: Exception | None = None

    @contextmanager
    def cluster(self) -> Iterator[int]:
        self.started += 1
        self.running += 1
        yield self.started
        self.running -= 1
        if self.ends is not None:
            raise self.ends


def next_test(config: Any, path: str, *names: str) -> Any:
    """A test without fixtures, in a file that has another one with these."""
    others = [
        SimpleNamespace(path=Path(path), fixturenames=names),
        SimpleNamespace(path=Path("tests/z.py"), fixturenames=["clusters"]),
    ]
    return SimpleNamespace(
        nodeid=f"{path}::one", path=Path(path), fixturenames=(), config=config, session=SimpleNamespace(items=others)
    )


@pytest.fixture
def request_of_a_fixture() -> Any:
    return SimpleNamespace(fixturename="clusters", config=SimpleNamespace(stash=pytest.Stash()))


def test_each_half_starts_once_and_ends_before_a_file_that_does_not_share_it(request_of_a_fixture: Any) -> None:
    machine, config = Machine(), request_of_a_fixture.config
    with started_once(request_of_a_fixture, machine.cluster) as found:
        assert (found(True), found(False), found(True)) == (1, 2, 1)
        end_what_is_not_shared(next_test(config, WITHOUT, "clusters"))
        assert (machine.running, found(False)) == (1, 2)
        end_what_is_not_shared(next_test(config, WITH, "clusters"))
        assert (machine.running, found(True)) == (0, 3)
        end_what_is_not_shared(next_test(config, WITH, "others"))
        assert machine.running == 0
        assert found(True) == 4
    assert machine.running == 0
    assert config.stash[RUNNING] == {}


def test_what_is_found_at_an_end_fails_and_the_other_half_ends_all_the_same(request_of_a_fixture: Any) -> None:
    machine = Machine()
    with (  # noqa: PT012 (both ends are within)
        pytest.raises(RuntimeError, match="a service complained"),
        started_once(request_of_a_fixture, machine.cluster) as found,
    ):
        found(True)
        found(False)
        machine.ends = RuntimeError("a service complained")
    assert machine.running == 0
