"""Groups under load while whatever serves them is killed, stopped and silent: nothing that was committed is ever forgotten.

Three groups by three clients read and commit; an independent client asks throughout what is committed, and holds it against
what was acknowledged. Real processes; `tests/compat/clients/test_group_coordinator_failover.py` has the pauses of one member.
"""

import signal
from collections.abc import Iterator

import pytest

from tests.compat.clients.admin import Admin
from tests.support.cluster_harness import LocalCluster
from tests.system.chaos.process_faults import elected
from tests.system.faults.group_readers import Group, Readers, Watcher
from tests.system.faults.produce_run import ProduceRun

PARTITIONS = 4
SILENCE_S = 3.0
LONGER_THAN_LEASES_S = 4.0
PACED = {"linger.ms": 50, "queue.buffering.max.messages": 40}


@pytest.fixture(scope="module")
def everything_twice() -> Iterator[LocalCluster]:
    with LocalCluster(storage=3, gateways=2, controllers=2, coordinators=2) as running:
        yield running


class Load:
    """A producer and the groups that read what it writes, all at work."""

    def __init__(self, run: ProduceRun, readers: Readers) -> None:
        self.run, self.readers = run, readers

    def finish(self) -> None:
        self.run.finish()
        self.readers.catch_up({index: len(found) for index, found in enumerate(self.run.acknowledged)})


@pytest.fixture
def load(everything_twice: LocalCluster, topic: str) -> Iterator[Load]:
    everything_twice.up()
    admin = Admin(everything_twice.bootstrap)
    admin.create(topic, PARTITIONS)
    admin.close()
    bootstrap = everything_twice.bootstrap
    with ProduceRun(bootstrap, topic, partitions=PARTITIONS, **PACED) as run, Readers(bootstrap, topic, PARTITIONS) as readers:
        readers.advance()
        yield Load(run, readers)


@pytest.mark.parametrize("role", ["group_coordinator", "storage", "gateway", "controller"])
def test_when_each_of_a_kind_is_killed_no_commit_is_forgotten_and_nothing_is_skipped(
    everything_twice: LocalCluster, load: Load, role: str
) -> None:
    names = [name for name in everything_twice.names if name.startswith(role)]
    for name in [elected(everything_twice)] if role == "controller" else names:
        everything_twice.kill(name)
        load.readers.advance()
        everything_twice.start(name)
        everything_twice.wait_ready([name])
        load.readers.know_gateways(2)
        load.readers.advance()
    load.finish()


def test_when_coordinator_controller_and_a_storage_node_die_together_groups_go_on(
    everything_twice: LocalCluster, load: Load
) -> None:
    names = ["group_coordinator-1", elected(everything_twice), "storage-2"]
    for name in names:
        everything_twice.kill(name)
    load.readers.advance()
    for name in names:
        everything_twice.start(name)
    everything_twice.wait_ready()
    load.readers.advance()
    load.finish()


def test_a_rolling_restart_of_everything_gives_nobody_a_record_twice(everything_twice: LocalCluster, load: Load) -> None:
    for name in everything_twice.names:
        if name != "etcd":
            everything_twice.restart(name)
            load.readers.know_gateways(2)
            load.readers.advance()
    load.finish()
    for group in load.readers.groups:
        assert not group.twice, (group.name, group.twice[:5])


def test_a_coordinator_that_is_silent_comes_back_as_nobody(everything_twice: LocalCluster, load: Load) -> None:
    for name in ("group_coordinator-1", "group_coordinator-2"):
        everything_twice.kill(name, signal.SIGSTOP)
        try:
            load.readers.idle_for(SILENCE_S)
        finally:
            everything_twice.kill(name, signal.SIGCONT)
        everything_twice.wait_ready([name])
        load.readers.advance()
    load.finish()


def test_while_etcd_is_away_groups_go_on(everything_twice: LocalCluster, load: Load) -> None:
    everything_twice.kill("etcd")
    load.readers.idle_for(LONGER_THAN_LEASES_S)
    everything_twice.start("etcd")
    everything_twice.wait_ready()
    load.readers.advance()
    load.finish()
    for group in load.readers.groups:
        assert not group.twice, (group.name, group.twice[:5])


def test_the_watcher_notices_an_offset_below_an_acknowledged_or_fetched_one() -> None:
    watcher = Watcher((), [Group("t", "g")], 1)
    watcher.compare(("t-g", 0), 5, {("t-g", 0): 5})
    assert not watcher.complaints
    watcher.compare(("t-g", 0), 5, {("t-g", 0): 6})
    assert len(watcher.complaints) == 1
    watcher.compare(("t-g", 0), 4, {})
    assert len(watcher.complaints) == 2
