"""Fixtures for all tests. Heavy things are imported when a test asks for them: unit tests should not pay for clusters."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.compat.kafka.broker import KafkaBroker
    from tests.support.cluster_harness import LocalCluster


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="only what `make test` runs")
    parser.addoption("--rest", action="store_true", help="only what `make test` leaves out of `make test-all`")
    parser.addoption("--deploy", action="store_true", help="only what `make deploy-test` runs")
    parser.addoption("--pipeline", action="store_true", help="only what `make pipeline-test` runs")
    parser.addoption("--properties", action="store_true", help="of these only the properties, which Hypothesis gives examples")


def pytest_configure(config: pytest.Config) -> None:
    """The examples of a property are the same in each run: what decides about a change gives the same answer twice.

    `make hunt` draws others, by `--hypothesis-profile=hunt`. No example has a time limit: machines are shared, and a slow moment
    is no failure.
    """
    from hypothesis import settings

    settings.register_profile("same examples", settings(), deadline=None, derandomize=True, database=None)
    settings.register_profile("hunt", settings(), deadline=None, derandomize=False, database=None)
    settings.load_profile("same examples")

    from tests.support.slowest_tests import SlowestTests

    config.pluginmanager.register(SlowestTests(), "slowest tests")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    from tests.support.selection import chosen_kinds, is_left_out

    if not collection_path.is_relative_to(config.rootpath):
        return None
    path = collection_path.relative_to(config.rootpath).as_posix()
    return True if is_left_out(path, chosen_kinds(config)) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    from tests.support.selection import select

    select(config, items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    from tests.support.selection import scheduler

    return scheduler(config, log)


@pytest.fixture(scope="session")
def shared_clusters() -> "Iterator[Callable[[bool], LocalCluster]]":
    """Two clusters of three storage nodes, with the gateways' shortcuts and without. Each starts when it is first asked for."""
    from tests.support.cluster_harness import LocalCluster
    from tests.support.shortcut_halves import started_once

    with started_once(lambda: LocalCluster(storage=3)) as found:
        yield found


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, shared_clusters: "Callable[[bool], LocalCluster]") -> "LocalCluster":
    """A cluster for all tests that harm nothing: they make topics of their own and kill nobody."""
    from tests.support.shortcut_halves import file_has_shortcuts

    return shared_clusters(file_has_shortcuts(request.path.relative_to(request.config.rootpath).as_posix()))


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[KafkaBroker]":
    """One Apache Kafka broker for all tests that compare with it."""
    from tests.compat.kafka.broker import QUICK, KafkaBroker
    from tests.support.requirements import require

    require("java", "kafka")
    with KafkaBroker(tmp_path_factory.mktemp("kafka"), options=QUICK) as running:
        yield running


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test uses."""
    plain = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    return f"{plain[:150]}-{abs(hash(request.node.nodeid)) % 10**8}"


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the repository."""
    return Path(__file__).resolve().parents[1]


@pytest.fixture
def short_dir() -> Iterator[Path]:
    """For Unix sockets, whose paths may have 107 bytes: pytest's own directories may have longer ones."""
    path = Path(tempfile.mkdtemp(prefix="ps-"))
    yield path
    shutil.rmtree(path)
