"""Power cuts of storage nodes that each have a disk: of one of them, or of all at once."""

import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.support.cluster_harness import LocalCluster
from tests.system.chaos.power import Disk, is_syncing
from tests.system.chaos.process_faults import Faults

AIM_S = 1.0


class PowerCuts(Faults):
    """Those of processes, and these besides. `together`: all nodes hang on one supply. What only page caches hold may go then,
    so that such a run has synced topics alone."""

    def __init__(
        self, cluster: LocalCluster, chance: random.Random, disks: Mapping[str, Disk], *, together: bool, clocks: Path
    ) -> None:
        super().__init__(cluster, chance, clocks=clocks)
        self._disks, self._together = disks, together
        if together:
            self.topics = {"synced": 3, "synced-too": 3}

    def names(self) -> list[str]:
        of_power = TOGETHER if self._together else ONE_BY_ONE
        return [*super().names(), *(name for name in of_power for _ in range(3))]

    def harm(self, name: str) -> None:
        if name in ONE_BY_ONE:
            ONE_BY_ONE[name](self)
        elif name in TOGETHER:
            TOGETHER[name](self)
        else:
            super().harm(name)

    def cut_one(self) -> None:
        self._cut(self._one("storage"))

    def cut_one_within_a_sync(self) -> None:
        name = self._one("storage")
        self._await_a_sync(name)
        self._cut(name)

    def cut_one_twice(self) -> None:
        """Again while it recovers."""
        name = self._one("storage")
        self._cut(name)
        self._cluster.start(name)
        self._hold(0.2, 1.5)
        self._cut(name)

    def cut_all(self) -> None:
        self._cut(*self._all("storage"))

    def cut_all_within_a_sync(self) -> None:
        self._await_a_sync(self._one("storage"))
        self._cut(*self._all("storage"))

    def cut_all_twice(self) -> None:
        self.cut_all()
        for name in self._all("storage"):
            self._cluster.start(name)
        self._hold(0.2, 2.0)
        self.cut_all()

    def _cut(self, *names: str) -> None:
        for name in names:
            self._disks[name].cut()
        for name in names:
            if self._cluster.is_running(name):
                self._cluster.kill(name)
        for name in names:
            self._disks[name].power_on()
        self._hold(0.0, 2.0)

    def _await_a_sync(self, name: str) -> None:
        pid, deadline = self._cluster.pid(name), time.monotonic() + AIM_S
        while not is_syncing(pid) and time.monotonic() < deadline:
            pass


ONE_BY_ONE: dict[str, Callable[[PowerCuts], None]] = {
    "power-cut-of-one": PowerCuts.cut_one,
    "power-cut-of-one-within-a-sync": PowerCuts.cut_one_within_a_sync,
    "power-cut-of-one-twice": PowerCuts.cut_one_twice,
}
TOGETHER: dict[str, Callable[[PowerCuts], None]] = {
    "power-cut-of-all": PowerCuts.cut_all,
    "power-cut-of-all-within-a-sync": PowerCuts.cut_all_within_a_sync,
    "power-cut-of-all-twice": PowerCuts.cut_all_twice,
}
