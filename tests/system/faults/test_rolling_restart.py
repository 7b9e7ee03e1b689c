"""A rolling restart by SIGTERM under load: no client notices more than a pause."""

from tests.compat.clients.admin import Admin
from tests.support.cluster_harness import LocalCluster
from tests.system.faults.placement import elected
from tests.system.faults.produce_run import ProduceRun, Tail

PARTITIONS = 4


def test_a_rolling_restart_fails_no_delivery_and_shows_a_consumer_no_error(healed: LocalCluster, topic: str) -> None:
    Admin(healed.bootstrap).create(topic, PARTITIONS)
    with (
        ProduceRun(healed.bootstrap, topic, partitions=PARTITIONS) as run,
        Tail(healed.bootstrap, topic, partitions=PARTITIONS) as tail,
    ):
        run.advance()
        for name in ("storage-1", "gateway-1", "gateway-2", elected(healed), "storage-2"):
            healed.restart(name)
            run.advance()
        run.finish()
        tail.catch_up(run)
    run.check(healed.bootstrap)
