"""Where clusters run whose processes are to fail: three storage nodes, two gateways, three controllers, etcd."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.chaos.cut_off import CutOffs
from tests.chaos.faults import Faults
from tests.chaos.hosts import HostedCluster, Hosts
from tests.cluster_harness import LocalCluster
from tests.faults.small_disks import small_disk

DISK_MEBIBYTES = 256
OFTEN = {f"storage-{node}": {"PENSTOCK_HIGH_WATERMARK_CHECKPOINT_S": "0.5"} for node in (1, 2, 3)}
NAMES = (
    "etcd",
    *(f"{role}-{node}" for role, count in (("controller", 3), ("storage", 3), ("gateway", 2)) for node in range(1, count + 1)),
)


@contextmanager
def one_host(directory: Path, chance: random.Random) -> Iterator[tuple[LocalCluster, Faults]]:
    """The processes speak by Unix sockets; one storage node has a small disk of its own."""
    with small_disk("tmpfs", directory, DISK_MEBIBYTES) as disk:
        of_storage = OFTEN | {"storage-3": {**OFTEN["storage-3"], "PENSTOCK_LOG_DIRS": str(disk / "logs")}}
        with LocalCluster(
            directory / "cluster",
            storage=3,
            gateways=2,
            controllers=3,
            environment_of=of_storage,
            expected_complaints="log directory retired|No space left on device",
        ) as cluster:
            yield cluster, Faults(cluster, chance, disk)


@contextmanager
def many_hosts(directory: Path, chance: random.Random) -> Iterator[tuple[LocalCluster, Faults]]:
    """Every process has a host of its own, and the network between them fails too."""
    with (
        Hosts(NAMES) as hosts,
        HostedCluster(hosts, directory / "cluster", environment_of=OFTEN, storage=3, gateways=2, controllers=3) as cluster,
    ):
        yield cluster, CutOffs(cluster, chance, hosts)
