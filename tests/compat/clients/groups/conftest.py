"""Fixtures of the tests with groups: brokers of their own, whose groups are quick."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat.clients.groups.brokers import Brokers, running
from tests.compat.clients.groups.group_members import GroupMembers
from tests.compat.clients.groups.offsets import GroupAdmin


@pytest.fixture(scope="package")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with running(tmp_path_factory.mktemp("groups")) as found:
        yield found


@pytest.fixture(scope="package")
def bootstrap(brokers: Brokers) -> str:
    return brokers.bootstrap


@pytest.fixture(scope="package")
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
