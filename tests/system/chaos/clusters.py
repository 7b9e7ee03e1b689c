"""Clusters whose processes are to fail: three storage nodes, two gateways and coordinators, three controllers, etcd."""

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.cluster_harness import LocalCluster
from tests.system.chaos.hosts import HostedCluster, Hosts
from tests.system.chaos.network_faults import NetworkFaults
from tests.system.chaos.power import Disk
from tests.system.chaos.power_cuts import PowerCuts
from tests.system.chaos.process_faults import Faults
from tests.system.chaos.skewed_clock import with_odd_clock
from tests.system.faults.small_disks import small_disk

DISK_MEBIBYTES = 256
EXPECTED = "log directory retired|No space left on device|Input/output error"
OFTEN = {f"storage-{node}": {"PENSTOCK_HIGH_WATERMARK_CHECKPOINT_S": "0.5"} for node in (1, 2, 3)}
COUNTS = (
    ("controller", 3),
    ("storage", 3),
    ("group_coordinator", 2),
    ("transaction_coordinator", 1),
    ("quota_manager", 1),
    ("gateway", 2),
)
NAMES = ("etcd", *(f"{role}-{node}" for role, count in COUNTS for node in range(1, count + 1)))


@contextmanager
def one_host(directory: Path, chance: random.Random) -> Iterator[tuple[LocalCluster, Faults]]:
    """The processes speak by Unix sockets; one storage node has a small disk of its own."""
    with small_disk("tmpfs", directory, DISK_MEBIBYTES) as disk:
        cluster = LocalCluster(
            directory / "cluster",
            storage=3,
            gateways=2,
            controllers=3,
            coordinators=2,
            environment_of=OFTEN | {"storage-3": {**OFTEN["storage-3"], "PENSTOCK_LOG_DIRS": str(disk / "logs")}},
            expected_complaints=EXPECTED,
        )
        cluster.alter_plans(lambda plan: with_odd_clock(plan, directory))
        with cluster:
            yield cluster, Faults(cluster, chance, clocks=directory, small_disk=disk)


@contextmanager
def many_disks(directory: Path, chance: random.Random, *, together: bool = False) -> Iterator[tuple[LocalCluster, Faults]]:
    """Every storage node has a disk of which the power can be cut."""
    with ExitStack() as unmounted:
        disks = {}
        for name in OFTEN:
            (directory / name).mkdir()
            disks[name] = Disk(directory / name, DISK_MEBIBYTES)
            unmounted.callback(disks[name].close)
        where = {name: {**often, "PENSTOCK_DATA_DIR": str(disks[name].at)} for name, often in OFTEN.items()}
        gateways = {f"gateway-{node}": {"PENSTOCK_OPEN_FILE_IDLE_S": "0.1"} for node in (1, 2)}  # else it keeps the disk busy
        cluster = LocalCluster(
            directory / "cluster",
            storage=3,
            gateways=2,
            controllers=3,
            coordinators=2,
            environment_of=where | gateways,
            expected_complaints=EXPECTED,
        )
        cluster.alter_plans(lambda plan: with_odd_clock(plan, directory))
        with cluster:
            yield cluster, PowerCuts(cluster, chance, disks, together=together, clocks=directory)


@contextmanager
def many_hosts(directory: Path, chance: random.Random) -> Iterator[tuple[LocalCluster, Faults]]:
    """Every process has a host of its own, and the network between them fails too."""
    with Hosts(NAMES) as hosts:
        cluster = HostedCluster(
            hosts, directory / "cluster", environment_of=OFTEN, storage=3, gateways=2, controllers=3, coordinators=2
        )
        cluster.expected_complaints = EXPECTED
        cluster.alter_plans(lambda plan: with_odd_clock(plan, directory))
        with cluster:
            yield cluster, NetworkFaults(cluster, chance, hosts, clocks=directory)
