"""Fixtures of the tests with groups: brokers of their own, whose groups are quick."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.compat.clients.groups.brokers import Brokers, running
from tests.compat.clients.groups.group_members import GroupMembers
from tests.compat.clients.groups.offsets import GroupAdmin
from tests.support.shortcut_halves import file_has_shortcuts, started_once


@pytest.fixture(scope="package")
def started(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[bool], Brokers]]:
    """Brokers with the gateways' shortcuts and brokers without. Each are started when they are first asked for."""
    with started_once(request, lambda: running(tmp_path_factory.mktemp("groups"))) as found:
        yield found


@pytest.fixture(scope="module")
def brokers(request: pytest.FixtureRequest, started: Callable[[bool], Brokers]) -> Brokers:
    return started(file_has_shortcuts(request.path.relative_to(request.config.rootpath).as_posix()))


@pytest.fixture(scope="module")
def bootstrap(brokers: Brokers) -> str:
    return brokers.bootstrap


@pytest.fixture(scope="module")
def admin(bootstrap: str) -> Iterator[GroupAdmin]:
    opened = GroupAdmin(bootstrap)
    yield opened
    opened.close()


@pytest.fixture
def group(topic: str) -> str:
    """A group id that no other test uses."""
    return f"{topic}-group"


@pytest.fixture
def group_members(bootstrap: str, admin: GroupAdmin, group: str, tmp_path: Path) -> Iterator[GroupMembers]:
    with GroupMembers(bootstrap, admin, group, tmp_path) as members:
        yield members
