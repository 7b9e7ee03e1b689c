"""The durable data of a replica: what its node made durable in this life or an earlier one, and nothing else."""

import errno
from collections.abc import Iterator
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from libs.cluster.records import InSync, PartitionState, Replica
from libs.commitlog.model.config import LogConfig
from libs.commitlog.partition_log.log import Log
from libs.commitlog.segments.segment import FileRegistry
from tests.commitlog.harness import append_some, sync
from tests.simulation.cluster.invariants import Invariants
from tests.simulation.cluster.world import World
from tests.simulation.disk import SimulatedDisk
from tests.simulation.node import StillClock
from tests.simulation.sometimes import Sometimes

KEY = (b"t" * 16, 0)
PATH = "/t-0"
LEADER, FOLLOWER = 1, 2
SYNCED = 5


class Node:
    """The part of a storage process that is looked at. Its log has `SYNCED` durable batches and nothing else."""

    def __init__(self, node_id: int) -> None:
        self.node_id, self.host = node_id, f"storage-{node_id}"
        self.running, self.paused, self.starts = True, False, 0
        self.disk = SimulatedDisk(Sometimes())
        self.open()
        append_some(self.log, SYNCED)
        sync(self.log)
        self.disk.fsync_directory("/")

    def open(self) -> None:
        self.starts += 1
        self.life = SimpleNamespace(name=f"{self.host}#{self.starts}")
        self.log = Log.open(PATH, "t", 0, LogConfig(), self.disk, registry=FileRegistry(), clock=StillClock())
        self.replica: Any = SimpleNamespace(synced=True, leading=self.node_id == LEADER, leader_epoch=0)
        self.partition: Any = SimpleNamespace(log=self.log, replica=self.replica, leader_epoch=0, offline=False)
        self.what = SimpleNamespace(partitions=SimpleNamespace(by_key={KEY: self.partition}, incarnation=self.starts))
        self.shows(0)

    def shows(self, high_watermark: int) -> None:
        self.replica.high_watermark = self.partition.high_watermark = high_watermark
        self.partition.log_end_offset = self.log.log_end_offset

    def restart(self, *, power: bool) -> None:
        left = self.disk.crashed(Random(1)) if power else self.disk.as_left_by_a_kill()
        self.disk.discard(OSError("another process took over"))
        self.disk = left
        self.open()


class Scene:
    def __init__(self) -> None:
        self.world = World(1)
        self.leader, self.follower = Node(LEADER), Node(FOLLOWER)
        nodes: Any = [self.leader, self.follower]
        self.invariants = Invariants(self.world, nodes, lambda key: "t-0")

    def both_append(self) -> None:
        """The leader syncs it, too."""
        for node in (self.leader, self.follower):
            append_some(node.log, 1)
        sync(self.leader.log)

    def violations(self, high_watermark: int) -> int:
        """The violations after one more look, at a leader that shows this."""
        isr = tuple(InSync(node.node_id, node.starts) for node in (self.leader, self.follower))
        replicas = tuple(Replica(node, "") for node in (LEADER, FOLLOWER))
        self.invariants.states[KEY] = PartitionState(replicas, LEADER, 1, 0, 0, isr)
        self.leader.shows(high_watermark)
        self.follower.shows(0)
        self.invariants.look()
        return len(self.world.violations)


@pytest.fixture
def scene() -> Iterator[Scene]:
    found = Scene()
    yield found
    found.world.loop.close()


@pytest.mark.parametrize("power", [True, False])
def test_records_that_an_earlier_life_synced_are_held_before_the_first_sync_round(scene: Scene, power: bool) -> None:
    """Seed 1051: a power cut, then a disk that took seconds for the first round, while another that knew more was elected."""
    scene.follower.restart(power=power)
    assert scene.follower.log.durable_offset < SYNCED == scene.follower.log.log_end_offset
    assert scene.violations(SYNCED) == 0


def test_records_that_a_failed_sync_dropped_are_not_held_though_the_page_cache_still_shows_them(scene: Scene) -> None:
    scene.both_append()
    scene.follower.disk.random = Random(1)
    scene.follower.disk.faults.fail("fdatasync", errno.EIO)
    with pytest.raises(OSError, match="Input/output error"):
        sync(scene.follower.log)
    scene.follower.restart(power=False)
    assert scene.follower.log.log_end_offset == SYNCED + 1
    assert scene.violations(SYNCED) == 0
    assert scene.violations(SYNCED + 1) == 1


def test_unsynced_records_are_not_held(scene: Scene) -> None:
    scene.both_append()
    assert scene.violations(SYNCED + 1) == 1


def test_records_since_the_start_are_not_held_before_the_node_says_so(scene: Scene) -> None:
    """A round has run, and its node was not told."""
    scene.follower.restart(power=True)
    assert scene.violations(SYNCED) == 0
    scene.both_append()
    scene.follower.disk.sync_all(PATH)
    assert scene.violations(SYNCED + 1) == 1


def test_records_that_were_cut_and_written_again_are_not_held(scene: Scene) -> None:
    scene.follower.restart(power=True)
    assert scene.violations(SYNCED) == 0
    scene.follower.log.truncate_to(SYNCED - 1)
    append_some(scene.follower.log, 1)
    assert scene.violations(SYNCED) == 1
