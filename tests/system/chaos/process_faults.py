"""The faults of a cluster's processes, each at a moment and for a time that a seed chooses. Each is over afterwards."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.cluster_harness import LocalCluster
from tests.support.requirements import is_available
from tests.system.chaos.skewed_clock import set_clock

READY_WITHIN_S = 90.0
LONGER_THAN_LEASES_S = (11.0, 14.0)
MOST_MS = 86_400_000  # retention would be right to take what is a week old


class Faults:
    """`small_disk`: where the logs of `storage-3` are, if that is a file system of a few megabytes of its own. `clocks`: of
    services that were started with odd ones."""

    def __init__(self, cluster: LocalCluster, chance: random.Random, *, clocks: Path, small_disk: Path | None = None) -> None:
        self._cluster, self._chance, self._small_disk, self._clocks = cluster, chance, small_disk, clocks

        self.topics = {"synced": 3, "replicated": 3}
        """Partitions by topic; a topic's name begins with its durability."""

    def names(self) -> list[str]:
        """All that can be done to this cluster."""
        lacking = {"disk-full"} if self._small_disk is None else set()
        if not is_available("strace"):
            lacking.add("syncs-fail")
        return [name for name in FAULTS if name not in lacking]

    def play(self, name: str) -> None:
        """Returns when every process runs and is ready."""
        self.harm(name)
        for process in self._cluster.names:
            if not self._cluster.is_running(process):
                self._cluster.start(process)
        self._cluster.wait_ready(within_s=READY_WITHIN_S)

    def harm(self, name: str) -> None:
        FAULTS[name](self)

    def kill_storage(self) -> None:
        self._kill(self._one("storage"))

    def kill_storage_for_long(self) -> None:
        """Its lease ends, whatever else tells that it is gone."""
        self._cluster.kill(self._one("storage"))
        self._outlast_leases()

    def pause_storage_for_long(self) -> None:
        """Pauses a leader until others have replaced it; it does not know."""
        with self._paused(self._one("storage")):
            self._outlast_leases()

    def kill_storage_briefly(self) -> None:
        """Kills a storage node. It is back before others can be sure that it was gone."""
        self._cluster.kill(self._one("storage"))

    def kill_gateway(self) -> None:
        self._kill(self._one("gateway"))

    def kill_controller(self) -> None:
        self._kill(elected(self._cluster))

    def kill_coordinator(self) -> None:
        self._kill(self._one("group_coordinator"))

    def kill_all_coordinators(self) -> None:
        self._kill(*self._all("group_coordinator"))

    def stop_coordinator(self) -> None:
        """Stops a coordinator, which hands its shards over."""
        self._cluster.kill(self._one("group_coordinator"), signal.SIGTERM)
        self._hold(0.0, 3.0)

    def kill_coordinator_and_controller(self) -> None:
        self._kill(self._one("group_coordinator"), elected(self._cluster))

    def kill_storage_and_controller(self) -> None:
        self._kill(self._one("storage"), elected(self._cluster))

    def kill_all_storage(self) -> None:
        """Kills all storage nodes, as a power cut of the machine does, but for the page cache."""
        self._kill(*self._all("storage"))

    def kill_etcd(self) -> None:
        self._kill("etcd")

    def kill_everything(self) -> None:
        self._kill(*self._cluster.names)

    def pause_storage(self) -> None:
        with self._paused(self._one("storage")):
            self._hold(0.2, 6.0)

    def pause_gateway(self) -> None:
        with self._paused(self._one("gateway")):
            self._hold(0.2, 4.0)

    def pause_controller(self) -> None:
        with self._paused(elected(self._cluster)):
            self._hold(0.5, 6.0)

    def pause_coordinator(self) -> None:
        """Pauses an owner until others have replaced it, or for less than their timeout."""
        with self._paused(self._one("group_coordinator")):
            self._hold(0.5, 6.0)

    def pause_etcd(self) -> None:
        with self._paused("etcd"):
            self._hold(0.5, 6.0)

    def pause_storage_and_kill_another(self) -> None:
        one, other = self._chance.sample(self._all("storage"), 2)
        with self._paused(one):
            self._hold(0.2, 3.0)
            self._cluster.kill(other)
            self._hold(0.0, 1.0)

    def kill_one_after_the_other(self) -> None:
        """The next one as soon as the last one is ready: it may not have caught up."""
        for name in self._chance.sample(self._all("storage"), len(self._all("storage"))):
            self._cluster.restart(name, signal.SIGKILL)

    def roll(self) -> None:
        """Restarts everything but etcd, one process after the other, as an operator would."""
        for role in ("controller", "storage", "group_coordinator", "transaction_coordinator", "quota_manager", "gateway"):
            for name in self._all(role):
                self._cluster.restart(name)

    def fill_disk(self) -> None:
        assert self._small_disk is not None
        ballast = self._small_disk / "ballast"
        try:
            with open(ballast, "wb", buffering=0) as file:
                try:
                    while True:
                        file.write(bytes(1 << 20))
                except OSError:
                    self._hold(1.0, 3.0)
        finally:
            ballast.unlink()

    def move_clocks(self) -> None:
        """Some go ahead, some go back, and all are right again; one dies while its clock is wrong."""
        names = [name for name in self._cluster.names if name != "etcd"]
        moved = self._chance.sample(names, self._chance.randint(1, len(names)))
        for name in moved:
            set_clock(self._clocks, name, self._chance.choice((-1, 1)) * self._chance.randint(1, MOST_MS))
        self._hold(0.2, 2.0)
        self._cluster.restart(moved[0], signal.SIGKILL)
        self._hold(0.2, 2.0)
        for name in moved:
            set_clock(self._clocks, name, 0)

    def fail_syncs(self) -> None:
        """Fails all syncs of one storage node for a while. It retires the directory, and an operator finds nothing wrong."""
        name = self._one("storage")
        retired = _log_directory(self._cluster.pid(name)) / ".retired"
        syncs = "fsync,fdatasync,syncfs"
        command = ["strace", "-f", "-qq", "-e", f"trace={syncs}", "-e", f"inject={syncs}:error=EIO", "-o", "/dev/null"]
        with subprocess.Popen([*command, "-p", str(self._cluster.pid(name))], stderr=subprocess.DEVNULL) as tracer:
            self._hold(0.5, 2.0)
            tracer.terminate()
        self._hold(0.0, 1.0)
        if self._cluster.is_running(name):
            self._cluster.kill(name)
        retired.unlink(missing_ok=True)

    def _kill(self, *names: str) -> None:
        for name in names:
            self._cluster.kill(name)
        self._hold(0.0, 3.0)

    @contextmanager
    def _paused(self, name: str) -> Iterator[None]:
        pid = self._cluster.pid(name)
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def _one(self, role: str) -> str:
        return self._chance.choice(self._all(role))

    def _all(self, role: str) -> list[str]:
        return [name for name in self._cluster.names if name.partition("-")[0] == role]

    def _outlast_leases(self) -> None:
        self._hold(*LONGER_THAN_LEASES_S)

    def _hold(self, least_s: float, most_s: float) -> None:
        time.sleep(self._chance.uniform(least_s, most_s))


def _log_directory(pid: int) -> Path:
    """The log directory of a storage node, from its environment."""
    environment = dict(
        line.split("=", 1) for line in Path(f"/proc/{pid}/environ").read_text(encoding="utf-8").split("\0") if "=" in line
    )
    return Path(environment.get("PENSTOCK_LOG_DIRS") or f"{environment['PENSTOCK_DATA_DIR']}/logs")


def elected(cluster: LocalCluster) -> str:
    """The controller that rules; any, if none says so at this moment."""
    names = [name for name in cluster.names if name.startswith("controller")]
    for name in names:
        if cluster.is_running(name) and "activecontrollercount 1.0" in cluster.admin(name, "/metrics"):
            return name
    return names[0]


FAULTS: dict[str, Callable[[Faults], None]] = {
    "storage-killed": Faults.kill_storage,
    "storage-killed-for-long": Faults.kill_storage_for_long,
    "storage-paused-for-long": Faults.pause_storage_for_long,
    "storage-killed-briefly": Faults.kill_storage_briefly,
    "gateway-killed": Faults.kill_gateway,
    "controller-killed": Faults.kill_controller,
    "coordinator-killed": Faults.kill_coordinator,
    "all-coordinators-killed": Faults.kill_all_coordinators,
    "coordinator-stopped": Faults.stop_coordinator,
    "coordinator-and-controller-killed": Faults.kill_coordinator_and_controller,
    "coordinator-paused": Faults.pause_coordinator,
    "storage-and-controller-killed": Faults.kill_storage_and_controller,
    "all-storage-killed": Faults.kill_all_storage,
    "etcd-killed": Faults.kill_etcd,
    "everything-killed": Faults.kill_everything,
    "storage-paused": Faults.pause_storage,
    "gateway-paused": Faults.pause_gateway,
    "controller-paused": Faults.pause_controller,
    "etcd-paused": Faults.pause_etcd,
    "storage-paused-another-killed": Faults.pause_storage_and_kill_another,
    "storage-killed-one-after-the-other": Faults.kill_one_after_the_other,
    "rolling-restart": Faults.roll,
    "clocks-moved": Faults.move_clocks,
    "syncs-fail": Faults.fail_syncs,
    "disk-full": Faults.fill_disk,
}
