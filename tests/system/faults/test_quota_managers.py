"""Quota managers of a real cluster: one is elected, the others stand by, and clients go on without any."""

import json
import signal
from collections.abc import Iterator

import pytest

from services.local.probe import ask
from tests.compat.clients.admin import Admin
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually
from tests.system.faults.produce_run import ProduceRun
from tests.system.faults.stored_records import set_quota

BOTH = ("quota_manager-1", "quota_manager-2")
ACTIVE = "the active quota manager"


@pytest.fixture(scope="module")
def two_managers() -> Iterator[LocalCluster]:
    with LocalCluster(quota_managers=2) as running:
        yield running


@pytest.fixture
def cluster(two_managers: LocalCluster) -> LocalCluster:
    two_managers.up()
    return two_managers


def says(cluster: LocalCluster, name: str, path: str) -> str:
    """Whatever the status is."""
    host, port = cluster.admin_address(name)
    return ask(port, path, timeout_s=60.0, host=host)[1].strip()


def readiness(cluster: LocalCluster, name: str) -> str:
    return says(cluster, name, "/readyz")


def elected(cluster: LocalCluster) -> str:
    (name,) = eventually(lambda: [name for name in BOTH if readiness(cluster, name) == ACTIVE])
    return name


def members(cluster: LocalCluster) -> list[int]:
    found: dict[str, list[int]] = json.loads(cluster.admin("controller-1", "/debug/image"))["members"]
    return found.get("quota_manager", [])


def test_one_is_elected_the_other_stands_by_and_both_say_that_the_cluster_is_healthy(cluster: LocalCluster) -> None:
    active = elected(cluster)
    (standby,) = set(BOTH) - {active}
    assert readiness(cluster, standby) == f"standby of quota manager {active[-1]}"
    told = {name: "penstock_quota_manager_elected 1.0" in cluster.admin(name, "/metrics") for name in BOTH}
    assert told == {active: True, standby: False}
    for name in BOTH:
        assert json.loads(cluster.admin(name, "/health"))["sentence"] == "healthy"
        assert json.loads(cluster.admin(name, "/debug/quotas")) == []
    assert members(cluster) == [1, 2]
    assert cluster.is_healthy()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_standby_takes_over_from_one_that_ends(cluster: LocalCluster, number: signal.Signals) -> None:
    active = elected(cluster)
    (standby,) = set(BOTH) - {active}
    cluster.kill(active, number)
    eventually(lambda: readiness(cluster, standby) == ACTIVE)
    eventually(lambda: members(cluster) == [int(standby[-1])])
    assert json.loads(cluster.admin("controller-1", "/health"))["sentence"] == "healthy", "no quota is set"
    assert not cluster.is_healthy(), "`make status` misses a process"
    cluster.up()
    assert readiness(cluster, active) == f"standby of quota manager {standby[-1]}"
    eventually(cluster.is_healthy)


def test_the_cluster_is_degraded_without_one_where_quotas_are_set(cluster: LocalCluster) -> None:
    def sentence() -> str:
        return str(json.loads(says(cluster, "controller-1", "/health"))["sentence"])

    set_quota(cluster, {"producer_byte_rate": 1000.0})
    try:
        for name in BOTH:
            cluster.kill(name)
        eventually(lambda: sentence() == "degraded: no quota manager is there")
        cluster.up()
        eventually(lambda: sentence() == "healthy")
    finally:
        set_quota(cluster, None)


def test_clients_go_on_while_all_quota_managers_are_away(cluster: LocalCluster, topic: str) -> None:
    Admin(cluster.bootstrap).create(topic)
    with ProduceRun(cluster.bootstrap, topic) as run:
        run.advance()
        for name in BOTH:
            cluster.kill(name)
        eventually(lambda: members(cluster) == [])
        run.advance()
        run.finish()
    run.check(cluster.bootstrap)
