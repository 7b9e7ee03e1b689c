"""Bugs that runs of whole clusters have found, each by its shortest way."""

from random import Random

from libs.clock import WallMs
from libs.commitlog.partition_log.directory import LogDirectory
from libs.runtime.identity import next_incarnation
from tests.simulation.disk import SimulatedDisk
from tests.simulation.sometimes import Sometimes


def test_a_power_cut_after_the_first_start_leaves_the_log_directory_in_its_place() -> None:
    """Seed 8: its name was never synced, and everything that was synced within it was gone. The node came back empty."""
    for seed in range(20):
        disk = SimulatedDisk(Sometimes())
        next_incarnation(disk, "/data", WallMs(1))
        opened = LogDirectory.open("/data/logs", disk, new_id=b"i" * 16, node_id=1)
        left = disk.crashed(Random(seed))
        again = LogDirectory.open("/data/logs", left, new_id=b"j" * 16, node_id=1)
        assert again.directory_id == opened.directory_id
