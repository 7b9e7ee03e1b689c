"""The mark of the metadata store's history, which outlives the process."""

from dataclasses import replace

from libs.cluster.image import ClusterImage
from libs.cluster.metadata_history import lost_nonces, mark_of, next_history, unanswered
from libs.runtime.metadata_marks import MetadataMarks
from tests.simulation.disk import SimulatedDisk
from tests.simulation.sometimes import Sometimes


def moved_on(image: ClusterImage, *nonces: int) -> ClusterImage:
    for nonce in nonces:
        image = replace(image, revision=image.revision + 1, history=next_history(image, nonce))
    return image


def marks(disk: SimulatedDisk) -> MetadataMarks:
    return MetadataMarks(disk, "/data")


def disk_with_data() -> SimulatedDisk:
    disk = SimulatedDisk(Sometimes())
    disk.make_directories("/data")
    return disk


async def test_a_mark_is_there_after_a_restart() -> None:
    disk, seen = disk_with_data(), moved_on(ClusterImage(), 1, 2)
    former = marks(disk)
    former.follow(ClusterImage(), seen)
    former.close()
    assert marks(disk).former == mark_of(seen)


async def test_a_process_that_saw_the_store_go_back_leaves_evidence_even_of_a_branch_without_an_entry() -> None:
    """Its mark said nothing: all of its numbers are in the backup too."""
    disk, backup = disk_with_data(), moved_on(ClusterImage(), 1, 2)
    former = marks(disk)
    former.follow(ClusterImage(), backup)
    former.close()
    assert lost_nonces(moved_on(backup, 3), marks(disk).former) == ()
    former.store_went_back(replace(backup, revision=9))
    assert lost_nonces(moved_on(backup, 3), marks(disk).former)


async def test_evidence_that_nobody_has_answered_is_not_overwritten() -> None:
    disk, backup = disk_with_data(), moved_on(ClusterImage(), 1, 2)
    marks(disk).store_went_back(moved_on(backup, 7))
    evidence = marks(disk).former
    again = marks(disk)
    restored = moved_on(backup, 3)
    again.follow(ClusterImage(), restored)
    again.close()
    again.store_went_back(restored)
    assert marks(disk).former == evidence
    answered = replace(restored, history=next_history(restored, 4, unanswered(restored, [evidence])))
    again.follow(restored, answered)
    again.close()
    assert marks(disk).former == mark_of(answered)
