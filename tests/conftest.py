"""Fixtures for all tests. Heavy things are imported when a test asks for them: unit tests should not pay for clusters."""

import gc
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

EXPORTERS_END_S = 60.0

if TYPE_CHECKING:
    from tests.compat.kafka.broker import KafkaBroker
    from tests.support.certificates import Authority
    from tests.support.cluster_harness import LocalCluster

MEMORY = "/dev/shm"
MEMORY_BYTES_MIN = 1 << 30


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

    # Collecting ten thousand tests makes few cycles and many objects: the garbage collector takes half of that time.
    gc.disable()

    from tests.support.slowest_tests import SlowestTests

    config.pluginmanager.register(SlowestTests(), "slowest tests")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    from tests.support.selection import chosen_kinds, is_left_out

    if not collection_path.is_relative_to(config.rootpath):
        return None
    path = collection_path.relative_to(config.rootpath).as_posix()
    return True if is_left_out(path, chosen_kinds(config)) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    from tests.support.shared_compiling import import_in_turn

    import_in_turn(session.config)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    from tests.support.selection import select

    select(config, items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """From here on garbage is collected, of what tests make: modules and tests, which stay, need not be looked at each time.

    By the interpreter's own thresholds, collections of all generations were a fifteenth of the CPU of all tests.
    """
    gc.set_threshold(10_000, 10, 20)
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    from tests.support.selection import scheduler

    return scheduler(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Workers take files that share clusters one after the other (`selection.in_turn`). Then these end: idle ones cost CPU."""
    from tests.support.shortcut_halves import end_what_is_not_shared

    yield
    if nextitem is not None and nextitem.path != item.path and hasattr(item.config, "workerinput"):
        end_what_is_not_shared(nextitem)


@pytest.fixture(scope="session")
def shared_clusters(request: pytest.FixtureRequest) -> "Iterator[Callable[[bool], LocalCluster]]":
    """Two clusters of three storage nodes, with the gateways' shortcuts and without. Each starts when it is first asked for."""
    from tests.support.cluster_harness import LocalCluster
    from tests.support.shortcut_halves import started_once

    with started_once(request, lambda: LocalCluster(storage=3)) as found:
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


@pytest.fixture(scope="module", autouse=True)
def exporters_end() -> Iterator[None]:
    """No trace exporter of a file's tests works on beside the next file's. One drew from the module `random`, as OpenTelemetry
    does before each attempt, while Hypothesis made examples: these failed.
    """
    yield
    deadline = time.monotonic() + EXPORTERS_END_S
    for thread in threading.enumerate():
        if thread.name == "trace exporter":
            thread.join(max(0.0, deadline - time.monotonic()))
            assert not thread.is_alive(), f"a trace exporter goes on {EXPORTERS_END_S} s after its tests"


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test uses."""
    plain = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    return f"{plain[:150]}-{abs(hash(request.node.nodeid)) % 10**8}"


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> "Authority":
    """An authority for certificates."""
    from tests.support.certificates import make_authority

    return make_authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def keystore(authority: "Authority") -> Path:
    """The key and the certificate of a server on this host."""
    return authority.sign("server", "/O=Penstock/CN=server")


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


@pytest.fixture
def memory_path(tmp_path: Path) -> Iterator[Path]:
    """For tests that make thousands of files and need nothing of a disk: most of their time is the disk's file system.

    Without room in memory it is `tmp_path`.
    """
    try:
        free = shutil.disk_usage(MEMORY).free
    except OSError:
        free = 0
    if free < MEMORY_BYTES_MIN or not os.access(MEMORY, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="ps-", dir=MEMORY) as path:
        yield Path(path)
