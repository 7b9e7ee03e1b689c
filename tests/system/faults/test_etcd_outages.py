"""Rule: an etcd outage is not a death. What is led stays led, clients notice nothing, and what needs etcd waits for it."""

import signal
import time

import pytest

from services.local.probe import ask
from tests.compat.clients.admin import Admin
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually
from tests.system.faults.placement import leaders
from tests.system.faults.produce_run import WITHIN_S, ProduceRun, Tail, read_all

PARTITIONS = 4
LONGER_THAN_LEASES_S = 4.0


def go_on_for(seconds: float, *runs: ProduceRun) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for run in runs:
            run.advance(50)


def readiness_of_controllers(cluster: LocalCluster) -> set[str]:
    return {ask(cluster.shape.admin_port("controller", number), "/readyz", timeout_s=60)[1] for number in (1, 2)}


@pytest.mark.parametrize("how", ["killed", "hanging"])
def test_clients_old_and_new_work_while_etcd_is_away_for_longer_than_leases_last(
    healed: LocalCluster, topic: str, how: str
) -> None:
    admin = Admin(healed.bootstrap)
    admin.create(topic, PARTITIONS)
    admin.create(f"{topic}-2")
    with (
        ProduceRun(healed.bootstrap, topic, partitions=PARTITIONS) as run,
        Tail(healed.bootstrap, topic, partitions=PARTITIONS) as tail,
    ):
        run.advance()
        healed.kill("etcd", signal.SIGKILL if how == "killed" else signal.SIGSTOP)
        try:
            go_on_for(LONGER_THAN_LEASES_S, run)
            with ProduceRun(healed.bootstrap, f"{topic}-2") as newcomer:  # new connections, Metadata, a producer id
                newcomer.advance()
                newcomer.finish()
            newcomer.check_log(0, read_all(healed.bootstrap, f"{topic}-2", 0))
            eventually(lambda: readiness_of_controllers(healed) == {"there is no active controller"})
        finally:
            if how == "killed":
                healed.start("etcd")
            else:
                healed.kill("etcd", signal.SIGCONT)
        go_on_for(LONGER_THAN_LEASES_S, run)
        admin.create(f"{topic}-3")
        assert not run.disconnects, run.disconnects[:3]
        run.finish()
        tail.catch_up(run)
    run.check(healed.bootstrap)


def test_a_storage_node_that_restarts_while_etcd_is_away_waits_for_it_and_others_go_on(healed: LocalCluster, topic: str) -> None:
    lost, kept = topic_on(healed, 1, topic), topic_on(healed, 2, topic)
    with ProduceRun(healed.bootstrap, lost) as waiting, ProduceRun(healed.bootstrap, kept) as run:
        waiting.advance()
        run.advance()
        healed.kill("etcd")
        healed.kill("storage-1")
        healed.start("storage-1")
        go_on_for(LONGER_THAN_LEASES_S, run)
        assert healed.is_running("storage-1")
        healed.start("etcd")
        healed.wait_ready()
        waiting.advance()
        run.advance()
        waiting.finish()
        run.finish()
    waiting.check(healed.bootstrap)
    run.check(healed.bootstrap)


def topic_on(cluster: LocalCluster, node: int, prefix: str) -> str:
    """A new topic with one partition, which lives there."""
    admin = Admin(cluster.bootstrap)
    for number in range(10):
        name = f"{prefix}-{node}-{number}"
        admin.create(name)
        if leaders(admin, name) == {0: node}:
            return name
    raise AssertionError(f"none of ten topics came to storage node {node}")


def test_everything_but_etcd_survives_that_all_of_it_starts_before_etcd_does(healed: LocalCluster, topic: str) -> None:
    Admin(healed.bootstrap).create(topic, 2)
    with ProduceRun(healed.bootstrap, topic, partitions=2) as run:
        run.advance()
        for name in healed.names:
            healed.kill(name)
        for name in healed.names:
            if name != "etcd":
                healed.start(name)
        nodes = [name for name in healed.names if name.startswith("storage")]
        eventually(lambda: all("unavailable" in healed.log(name) for name in nodes), WITHIN_S)
        healed.start("etcd")
        healed.wait_ready()
        run.advance()
        run.finish()
    run.check(healed.bootstrap)
