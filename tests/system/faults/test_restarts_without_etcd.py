"""Processes that start while etcd is away: they use a peer's metadata, as far as that is safe."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from services.local.probe import ask
from tests.compat.clients.admin import Admin
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually
from tests.system.faults.produce_run import ProduceRun, Tail, read_all

GATEWAYS = ("gateway-1", "gateway-2")
CONTROLLERS = ("controller-1", "controller-2")
COORDINATOR = "group_coordinator-1"
OTHERS = {"storage-1", "storage-2", COORDINATOR, "transaction_coordinator-1", "quota_manager-1", *GATEWAYS}
BORROWED = "uses the cluster image of a peer"
VERIFIED = "cluster image comes from the metadata store again"


@contextmanager
def without_etcd(cluster: LocalCluster) -> Iterator[None]:
    cluster.kill("etcd")
    try:
        yield
    finally:
        cluster.start("etcd")
        cluster.wait_ready()


class LogsSinceStart:
    """Processes that were started, and what each has said since."""

    def __init__(self, cluster: LocalCluster, *names: str) -> None:
        for name in names:
            if cluster.is_running(name):
                cluster.kill(name)
        self._cluster = cluster
        self._before = {name: len(cluster.log(name)) for name in names}
        for name in names:
            cluster.start(name)

    def lines(self, name: str) -> str:
        return self._cluster.log(name)[self._before[name] :]

    def until_logged(self, name: str, text: str) -> None:
        eventually(lambda: text in self.lines(name))


def test_gateways_that_restart_while_etcd_is_away_serve_clients_old_and_new(healed: LocalCluster, topic: str) -> None:
    admin = Admin(healed.bootstrap)
    admin.create(topic, 2)
    admin.create(f"{topic}-2")
    with (
        ProduceRun(healed.bootstrap, topic, partitions=2) as run,
        Tail(healed.bootstrap, topic, partitions=2) as tail,
    ):
        run.advance()
        with without_etcd(healed):
            gateways = LogsSinceStart(healed, *GATEWAYS)
            healed.wait_ready(GATEWAYS)
            run.advance()
            with ProduceRun(healed.bootstrap, f"{topic}-2") as newcomer:  # a producer id, of a block that outlived its gateway
                newcomer.advance()
                newcomer.finish()
            newcomer.check_log(0, read_all(healed.bootstrap, f"{topic}-2", 0))
            for name in GATEWAYS:
                assert BORROWED in gateways.lines(name)
        for name in GATEWAYS:
            gateways.until_logged(name, VERIFIED)
        run.advance()
        admin.create(f"{topic}-3")
        run.finish()
        tail.catch_up(run)
    run.check(healed.bootstrap)


def test_gateways_that_everybody_takes_for_dead_name_themselves_when_they_start_without_etcd(
    healed: LocalCluster, topic: str
) -> None:
    Admin(healed.bootstrap).create(topic)
    with ProduceRun(healed.bootstrap, topic) as run:
        run.advance()
        for name in GATEWAYS:
            healed.kill(name)
        eventually(lambda: "gateway" not in members(healed))
        with without_etcd(healed):
            LogsSinceStart(healed, *GATEWAYS)
            healed.wait_ready(GATEWAYS)
            run.advance()
            assert len(Admin(healed.bootstrap).client.list_topics(timeout=60).brokers) == 2
        run.advance()
        run.finish()
    run.check(healed.bootstrap)


def members(cluster: LocalCluster) -> dict[str, list[int]]:
    found: dict[str, list[int]] = json.loads(cluster.admin("controller-1", "/debug/image"))["members"]
    return found


def test_controllers_that_restart_while_etcd_is_away_hear_the_living_and_campaign_when_it_is_back(
    healed: LocalCluster, topic: str
) -> None:
    admin = Admin(healed.bootstrap)
    admin.create(topic)
    with ProduceRun(healed.bootstrap, topic) as run:
        run.advance()
        with without_etcd(healed):
            controllers = LogsSinceStart(healed, *CONTROLLERS)
            for name in CONTROLLERS:
                controllers.until_logged(name, BORROWED)
                eventually(lambda name=name: heard(healed, name) == OTHERS)
                assert readiness(healed, name) == (False, "the metadata store has not been read")
            run.advance()
        dead = [line for name in CONTROLLERS for line in controllers.lines(name).splitlines() if "taken for dead" in line]
        assert all("role=controller " in line for line in dead), "of them the former lives may be, and are"
        admin.create(f"{topic}-2")
        run.advance()
        run.finish()
    run.check(healed.bootstrap)


def test_a_coordinator_that_restarts_while_etcd_is_away_waits_for_its_shards(healed: LocalCluster) -> None:
    with without_etcd(healed):
        coordinator = LogsSinceStart(healed, COORDINATOR)
        coordinator.until_logged(COORDINATOR, BORROWED)
        eventually(lambda: "nobody can give shards" in readiness(healed, COORDINATOR)[1])
        assert not readiness(healed, COORDINATOR)[0]
    coordinator.until_logged(COORDINATOR, VERIFIED)
    eventually(lambda: readiness(healed, COORDINATOR)[0])  # its shards are given to it after that


def heard(cluster: LocalCluster, controller: str) -> set[str]:
    detection = json.loads(cluster.admin(controller, "/debug/detection"))
    return {name for name in detection["heard"] if not name.startswith("controller")}


def test_a_process_that_reaches_no_peer_waits_says_so_and_is_not_ready(healed: LocalCluster, topic: str) -> None:
    Admin(healed.bootstrap).create(topic)
    with ProduceRun(healed.bootstrap, topic) as run:
        run.advance()
        for name in healed.names:
            healed.kill(name)
        lives = LogsSinceStart(healed, "gateway-1", "controller-1", "storage-1")
        waits = "waits for the metadata store"
        for name, text in (("gateway-1", f"{waits}, or"), ("controller-1", f"{waits}, or"), ("storage-1", f"{waits}, without")):
            lives.until_logged(name, text)
            assert not readiness(healed, name)[0]
        healed.up()
        run.advance()
        run.finish()
    run.check(healed.bootstrap)


def readiness(cluster: LocalCluster, name: str) -> tuple[bool, str]:
    role, _, number = name.partition("-")
    ready, lines = ask(cluster.shape.admin_port(role, int(number)), "/readyz", timeout_s=60)
    return ready, lines.strip()


def test_a_storage_node_that_restarts_while_etcd_is_away_borrows_nothing(healed: LocalCluster, topic: str) -> None:
    """Strays are what the image does not name: one that is older than its last one could cost it new topics."""
    Admin(healed.bootstrap).create(topic, 2)
    with ProduceRun(healed.bootstrap, topic, partitions=2) as run:
        run.advance()
        with without_etcd(healed):
            node = LogsSinceStart(healed, "storage-1")
            node.until_logged(
                "storage-1", "waits for the metadata store, without which a storage node may neither lead nor follow"
            )
            assert readiness(healed, "storage-1") == (False, "waiting for the metadata store")
        run.advance()
        run.finish()
    assert BORROWED not in node.lines("storage-1")
    run.check(healed.bootstrap)
