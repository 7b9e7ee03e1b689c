"""The tests that `make test` runs, and those that share a worker.

`make test` is the quick half: units, properties, cores, contracts, and one cluster with one client of each kind that needs no
Java. `make test-all` adds the rest. `make deploy-test` runs what installs and upgrades, which may need Docker and root.
`make pipeline-test` runs what needs PySpark, in an environment of its own.
`--quick`, `--rest`, `--deploy` and `--pipeline` choose: each test is in exactly one of them. Without any, all tests run but those
of the pipeline. `--properties` leaves of these only the tests to which Hypothesis gives examples.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.support.shortcut_halves import fixture_names, item_has_shortcuts

QUICK_CLIENTS = (
    "tests/compat/clients/test_aiokafka.py",
    "tests/compat/clients/test_confluent_producer.py",
    "tests/compat/clients/test_kafka_python.py",
    "tests/compat/clients/test_kcat.py",
)
KINDS = ("--quick", "--rest", "--deploy")
PIPELINE = "--pipeline"
PROPERTIES = "--properties"
DEPLOY = ("tests/deploy/",)
SLOW = (
    "tests/compat/",
    "tests/fuzz/live/",
    "tests/system/",
    "tests/simulation/cluster/",
    "tests/simulation/compaction/",
    "tests/simulation/quotas/",
    "tests/simulation/test_crash_points.py",
    "tests/simulation/test_planted_bugs.py",
    "tests/harness/test_cluster_harness.py",
    "tests/group_coordinator/conversion/test_planted_conversion_bugs.py",
    "tests/local/test_metadata_backups.py",
    "tests/local/test_status.py",
    # These compare with Apache Kafka, which takes Java.
    "tests/commitlog/test_cleaner_kafka.py",
    "tests/commitlog/test_kafka_reads_our_files.py",
    "tests/commitlog/test_kafka_transactions.py",
    "tests/gateway/test_java_authentication.py",
    "tests/group_coordinator/assignors/test_against_kafka.py",
    "tests/group_coordinator/consumer/test_beside_kafka.py",
    "tests/group_coordinator/consumer/test_regex.py",
    "tests/group_coordinator/conversion/test_conversions_beside_kafka.py",
    "tests/group_coordinator/test_kafka_reads_our_records.py",
    "tests/transaction_coordinator/test_kafka_reads_our_records.py",
)
GROUPS = {
    "one Kafka broker judges them all": (
        "tests/commitlog/test_cleaner_kafka.py",
        "tests/commitlog/test_kafka_reads_our_files.py",
        "tests/commitlog/test_kafka_transactions.py",
    ),
    "one Kafka broker is asked the same": (
        "tests/compat/kafka/test_broker.py",
        "tests/compat/kafka/test_tool_server.py",
        "tests/group_coordinator/consumer/test_beside_kafka.py",
        "tests/group_coordinator/conversion/test_conversions_beside_kafka.py",
    ),
    "one cluster serves the quick clients": QUICK_CLIENTS,
    "one Docker daemon runs all containers": (
        "tests/deploy/compose/test_cluster.py",
        "tests/deploy/compose/test_container_faults.py",
        "tests/deploy/compose/test_images.py",
        "tests/deploy/compose/test_nodes.py",
        "tests/deploy/compose/test_secured.py",
        "tests/deploy/compose/test_single.py",
    ),
}
"""Files whose tests share fixtures that are dear to make: one worker runs all of them."""

LONG = (
    "tests/simulation/turn_work/test_turn_work.py",
    "tests/simulation/hunt/test_hunt.py",
    # The large cluster starts last, since it costs half a core until the last container test has ended.
    "tests/deploy/compose/test_images.py",
    "tests/deploy/compose/test_single.py",
    "tests/deploy/compose/test_cluster.py",
    "tests/deploy/upgrade/test_rolling_upgrade.py",
    "tests/deploy/migration/test_mirror_maker.py",
    "tests/deploy/migration/test_in_place.py",
    "tests/deploy/quickstarts/test_quick_starts.py",
    "tests/deploy/chart/test_pods_as_processes.py",
    "tests/simulation/test_crash_points.py",
    "tests/simulation/cluster/test_planted_cluster_bugs.py",
    "tests/simulation/cluster/test_cluster_runs.py",
    "tests/system/monitoring/test_alerts_and_panels.py",
    "tests/system/faults/test_rebalance_storm.py",
    "tests/compat/clients/transactions/test_streams.py",
    "tests/compat/clients/groups/test_connect.py",
    "tests/compat/clients/security/test_secured_clients.py",
    "tests/compat/clients/test_confluent_producer.py",
    "tests/local/test_commands.py",
    "tests/pipeline/test_make_pipeline.py",
    "tests/pipeline/test_kill_chain.py",
    "tests/pipeline/test_command_line.py",
    "tests/pipeline/test_session.py",
)
"""Files whose few tests take minutes. They begin first, so that at the end no worker waits for another one."""

SHARED = ("kafka", "started", "shared_clusters")
"""Fixtures that several files share. Each worker starts what they are of, and takes these files together."""

_GROUP_OF = {file: name for name, files in GROUPS.items() for file in files}


def kind_of(path: str) -> str:
    """The option that chooses the tests of this file; `path` is relative to the repository."""
    if path.startswith("tests/pipeline/") and not path.startswith("tests/pipeline/units/"):
        return PIPELINE
    if path.startswith(DEPLOY):
        return "--deploy"
    return "--quick" if path in QUICK_CLIENTS or not path.startswith(SLOW) else "--rest"


def is_property(item: pytest.Item) -> bool:
    """Hypothesis gives the test its examples."""
    return getattr(getattr(item, "obj", None), "is_hypothesis_test", False)


class ByFile(LoadScopeScheduling):  # type: ignore[misc]
    """All tests of a file, or of a group of files, go to one worker. xdist's own `loadgroup` does not group under pytest 9.2: it
    writes to an attribute from which pytest no longer reads."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        return _GROUP_OF.get(path, path)


def scheduler(config: pytest.Config, log: Any) -> ByFile:
    config.option.loadscopereorder = False  # `select` has given the order
    return ByFile(config, log)


def chosen_kinds(config: pytest.Config) -> Sequence[str]:
    return [kind for kind in (*KINDS, PIPELINE) if config.getoption(kind)] or KINDS


def is_left_out(path: str, chosen: Sequence[str]) -> bool:
    """The options leave out the whole file: it need not even be imported, which costs each worker of a run seconds."""
    return path.rpartition("/")[2].startswith("test_") and kind_of(path) not in chosen


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects what the options leave out."""
    chosen, only_properties = chosen_kinds(config), config.getoption(PROPERTIES)
    kept, left = [], []
    for item in items:
        is_chosen = kind_of(item.nodeid.partition("::")[0]) in chosen and (not only_properties or is_property(item))
        (kept if is_chosen else left).append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept
    if hasattr(config, "workerinput"):
        items[:] = in_turn(items)


def in_turn(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """As workers take them: long files first, then those with the most tests, so that what is left for the end is short. Files
    that share a fixture follow one another, by halves (`shortcut_halves.py`): what they share ends when it is not needed."""
    files = [item.nodeid.partition("::")[0] for item in items]
    tests = Counter(files)
    shared = dict(sorted((path, _shared(item)) for path, item in zip(files, items, strict=True)))  # the most of each file's tests
    turns = {path: (LONG.index(path) if path in LONG else len(LONG), shared[path], -tests[path]) for path in tests}
    return [item for _, item in sorted(zip(files, items, strict=True), key=lambda pair: turns[pair[0]])]


def _shared(item: pytest.Item) -> tuple[int, bool]:
    names = fixture_names(item)
    found = [index for index, name in enumerate(SHARED) if name in names]
    return (found[-1], item_has_shortcuts(item)) if found else (-1, False)
