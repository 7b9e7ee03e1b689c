"""The ways in which a storage node comes to its end here, each at a moment that a seed chooses."""

import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.support.cluster_harness import LocalCluster
from tests.system.chaos.power import Disk, is_syncing, sleep_until
from tests.system.chaos.streams import Stream

NODE = "storage-1"
AIM_S = 1.0


@dataclass
class Cut:
    """The outcome of one failure. `lost_bytes`: bytes of logs that were in the page cache and are not on the disk."""

    kind: str
    cuts: int = 0
    during_sync: bool = False
    during_roll: bool = False
    lost_bytes: int = 0


class NodeFailures:
    """Ends the storage node's life and leaves its disk mounted, ready for the next."""

    def __init__(self, cluster: LocalCluster, disk: Disk, streams: Callable[[], Sequence[Stream]], chance: random.Random) -> None:
        self._cluster, self._disk, self._streams, self._chance = cluster, disk, streams, chance

    def end(self, kind: str) -> Cut:
        cut = Cut(kind)
        getattr(self, f"_{kind.replace('-', '_')}")(cut)
        return cut

    def begin(self) -> None:
        """The next life."""
        for stream in self._streams():
            stream.life += 1
        self._cluster.start(NODE)

    def _power(self, cut: Cut) -> None:
        """Cuts the power at any moment."""
        self._wait(0.5)
        self._cut(cut)

    def _within_a_sync(self, cut: Cut) -> None:
        self._wait(0.3)
        pid = self._cluster.pid(NODE)
        deadline = time.monotonic() + AIM_S
        while not is_syncing(pid) and time.monotonic() < deadline:
            pass
        sleep_until(time.monotonic() + self._chance.uniform(0, 0.002))
        self._cut(cut)

    def _within_a_roll(self, cut: Cut) -> None:
        """Just after a new file has appeared."""
        self._wait(0.3)
        before = set(self._disk.log_files())
        deadline = time.monotonic() + AIM_S
        while not set(self._disk.log_files()) - before and time.monotonic() < deadline:
            pass
        self._cut(cut)

    def _kill(self, cut: Cut) -> None:
        """The power stays."""
        self._wait(0.5)
        self._catch()
        self._cluster.kill(NODE)
        self._catch()

    def _twice(self, cut: Cut) -> None:
        """Again while the next life begins."""
        self._power(cut)
        self.begin()
        self._wait(1.2)
        self._cut(cut)

    def _after_a_kill(self, cut: Cut) -> None:
        """Cuts the power after a kill: the next process finds unsynced data, which are still in memory alone."""
        self._kill(cut)
        self.begin()
        self._wait(1.5)
        self._cut(cut)

    def _within_a_clean_stop(self, cut: Cut) -> None:
        self._wait(0.4)
        os.kill(self._cluster.pid(NODE), signal.SIGTERM)
        self._wait(0.25)
        self._cut(cut)

    def _cut(self, cut: Cut) -> None:
        self._catch()
        before = self._disk.log_files()
        if self._cluster.is_running(NODE):
            cut.during_sync |= is_syncing(self._cluster.pid(NODE))
        self._disk.cut()
        cut.cuts += 1
        if self._cluster.is_running(NODE):
            self._cluster.kill(NODE)
        self._catch()  # some were answered, and others sent, while it went
        self._disk.power_on()
        after = self._disk.log_files()
        cut.during_roll |= bool(set(before) - set(after))
        cut.lost_bytes += sum(max(0, size - after.get(path, 0)) for path, size in before.items())

    def _catch(self) -> None:
        for stream in self._streams():
            stream.caught()

    def _wait(self, most_s: float) -> None:
        sleep_until(time.monotonic() + self._chance.uniform(0, most_s))


ORDER = (
    "within-a-sync",
    "within-a-roll",
    "twice",
    "power",
    "within-a-roll",
    "within-a-clean-stop",
    "within-a-sync",
    "kill",
    "power",
    "after-a-kill",
)
