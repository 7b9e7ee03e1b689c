"""Fixtures of the pipeline's tests. They run in the pipeline's own environment: `make pipeline-test`."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNITS = Path(__file__).parent / "units"
"""Tests that need no PySpark; they are in the quick half of all tests."""


JVM_OF_SHORT_RUNS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -Xshare:auto"
"""A JVM of a test lives for minutes: what its second compiler spends on code, it never gets back. Without that compiler, a JVM
has 48 MB for code. Spark needs more, so methods would be dropped and compiled again all the time."""


def pytest_configure(config: pytest.Config) -> None:
    """Spark's JVMs of this process and of those that it starts."""
    if config.getoption("--pipeline", False):
        os.environ.setdefault("SPARK_SUBMIT_OPTS", JVM_OF_SHORT_RUNS)


@pytest.fixture(scope="session", autouse=True)
def class_archive(request: pytest.FixtureRequest) -> None:
    """JVMs that start from here on use the archive, unless somebody has given other options."""
    if request.config.getoption("--pipeline") and os.environ["SPARK_SUBMIT_OPTS"] == JVM_OF_SHORT_RUNS:
        from tests.pipeline.class_archive import with_archive

        os.environ["SPARK_SUBMIT_OPTS"] = with_archive(JVM_OF_SHORT_RUNS, os.environ)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files that import PySpark are left alone where `make pipeline-test` does not run them."""
    in_units = collection_path == UNITS or UNITS in collection_path.parents or collection_path in UNITS.parents
    return None if in_units or config.getoption("--pipeline") else True


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """The one session of this process: two task threads, 1 GB.

    Spark interprets its plans, since compiling them takes a quarter of these tests' CPU. Jobs that tests start as programs
    compile theirs, as users' do.
    """
    from services.pipeline.spark.session import make_session
    from services.pipeline.spark.settings import SparkSettings
    from tests.support.requirements import require

    require("java")
    warehouse = tmp_path_factory.mktemp("warehouse")
    interpreted = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    config = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2", "spark.sql.warehouse.dir": str(warehouse)}
    session = make_session(SparkSettings("local[2]", config | interpreted), "penstock pipeline tests")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    """A cluster of one storage node, which compacts at once, for all tests of the pipeline that kill nobody."""
    from tests.support.cluster_harness import LocalCluster

    with LocalCluster(environment_of={"storage-1": {"PENSTOCK_BROKER_CONFIGS": "log.cleaner.backoff.ms=50"}}) as running:
        yield running.bootstrap


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """PySpark leaves sockets to the garbage collector after `collect` and `toArrow`."""
    for item in items:
        if "tests/pipeline/" in item.nodeid and not item.nodeid.startswith("tests/pipeline/units/"):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
