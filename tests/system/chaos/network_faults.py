"""The faults of the network between a cluster's hosts, each at a moment and for a time that a seed chooses."""

import random
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

from tests.support.cluster_harness import LocalCluster
from tests.system.chaos.hosts import Hosts
from tests.system.chaos.process_faults import Faults, elected

Pairs = list[tuple[str, str]]


class NetworkFaults(Faults):
    """Those of processes, and these besides."""

    def __init__(self, cluster: LocalCluster, chance: random.Random, hosts: Hosts, *, clocks: Path) -> None:
        super().__init__(cluster, chance, clocks=clocks)
        self._hosts = hosts

    def names(self) -> list[str]:
        return [*super().names(), *CUTS]

    def harm(self, name: str) -> None:
        if name not in CUTS:
            super().harm(name)
            return
        with self._hosts.dropped(CUTS[name](self)):
            if self._chance.random() < 0.3:
                self._outlast_leases()
            else:
                self._hold(0.3, 6.0)

    def storage_from_all(self) -> Pairs:
        return self._apart([self._one("storage")], self._cluster.names)

    def storage_is_not_heard(self) -> Pairs:
        one = self._one("storage")
        return [(one, other) for other in self._cluster.names if other != one]

    def storage_hears_nothing(self) -> Pairs:
        one = self._one("storage")
        return [(other, one) for other in self._cluster.names if other != one]

    def storage_from_storage(self) -> Pairs:
        one, other = self._chance.sample(self._all("storage"), 2)
        return self._apart([one], [other])

    def storage_does_not_hear_storage(self) -> Pairs:
        one, other = self._chance.sample(self._all("storage"), 2)
        return [(one, other)]

    def storage_from_etcd(self) -> Pairs:
        return self._apart([self._one("storage")], ["etcd"])

    def storage_from_controllers(self) -> Pairs:
        return self._apart([self._one("storage")], self._all("controller"))

    def gateway_from_storage(self) -> Pairs:
        return self._apart([self._one("gateway")], [self._one("storage")])

    def gateway_does_not_hear_storage(self) -> Pairs:
        return [(self._one("storage"), self._one("gateway"))]

    def gateway_from_all(self) -> Pairs:
        return self._apart([self._one("gateway")], self._cluster.names)

    def controller_from_etcd(self) -> Pairs:
        return self._apart([elected(self._cluster)], ["etcd"])

    def controller_from_all(self) -> Pairs:
        return self._apart([elected(self._cluster)], self._cluster.names)

    def controller_from_storage(self) -> Pairs:
        return self._apart([elected(self._cluster)], self._all("storage"))

    def coordinator_from_all(self) -> Pairs:
        return self._apart([self._one("group_coordinator")], self._cluster.names)

    def coordinator_from_storage(self) -> Pairs:
        return self._apart([self._one("group_coordinator")], self._all("storage"))

    def coordinator_from_controllers(self) -> Pairs:
        """Its shards go to others while it still reaches their logs."""
        return self._apart([self._one("group_coordinator")], self._all("controller"))

    def coordinator_does_not_hear_storage(self) -> Pairs:
        coordinator = self._one("group_coordinator")
        return [(node, coordinator) for node in self._all("storage")]

    def gateway_from_coordinators(self) -> Pairs:
        return self._apart([self._one("gateway")], self._all("group_coordinator"))

    def etcd_from_all(self) -> Pairs:
        return self._apart(["etcd"], self._cluster.names)

    def halves(self) -> Pairs:
        names = self._chance.sample(self._cluster.names, len(self._cluster.names))
        return self._apart(names[: len(names) // 2], names[len(names) // 2 :])

    @staticmethod
    def _apart(some: Sequence[str], others: Sequence[str]) -> Pairs:
        return [pair for one, other in product(some, others) if one != other for pair in ((one, other), (other, one))]


CUTS: dict[str, Callable[[NetworkFaults], Pairs]] = {
    "storage-cut-off": NetworkFaults.storage_from_all,
    "storage-not-heard": NetworkFaults.storage_is_not_heard,
    "storage-hears-nothing": NetworkFaults.storage_hears_nothing,
    "storage-cut-from-storage": NetworkFaults.storage_from_storage,
    "storage-deaf-to-storage": NetworkFaults.storage_does_not_hear_storage,
    "storage-cut-from-etcd": NetworkFaults.storage_from_etcd,
    "storage-cut-from-controllers": NetworkFaults.storage_from_controllers,
    "gateway-cut-from-storage": NetworkFaults.gateway_from_storage,
    "gateway-deaf-to-storage": NetworkFaults.gateway_does_not_hear_storage,
    "gateway-cut-off": NetworkFaults.gateway_from_all,
    "controller-cut-from-etcd": NetworkFaults.controller_from_etcd,
    "controller-cut-off": NetworkFaults.controller_from_all,
    "controller-cut-from-storage": NetworkFaults.controller_from_storage,
    "coordinator-cut-off": NetworkFaults.coordinator_from_all,
    "coordinator-cut-from-storage": NetworkFaults.coordinator_from_storage,
    "coordinator-cut-from-controllers": NetworkFaults.coordinator_from_controllers,
    "coordinator-deaf-to-storage": NetworkFaults.coordinator_does_not_hear_storage,
    "gateway-cut-from-coordinators": NetworkFaults.gateway_from_coordinators,
    "etcd-cut-off": NetworkFaults.etcd_from_all,
    "halves": NetworkFaults.halves,
}
