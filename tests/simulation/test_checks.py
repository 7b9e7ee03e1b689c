"""The checks of a recovered disk accept what a crash may leave, and nothing else."""

from random import Random

import pytest

from libs.commitlog.partition_log.log import Log
from libs.commitlog.segments.segment import FileRegistry
from tests.commitlog.harness import SMALL, SetClock, append, batch_at
from tests.simulation.checks import Broken, check_log
from tests.simulation.disk import SimulatedDisk
from tests.simulation.model import PartitionModel
from tests.simulation.sometimes import Sometimes

KEPT, CLEANED, LAST, REFUSED = (bytes(batch_at(offset)) for offset in range(4))
STRANGER = bytes(batch_at(3, size=30))


def check(*batches: bytes) -> int:
    """The end offset of a log of these batches, once it was checked.

    A swap that takes `CLEANED` is under way. The append of `REFUSED` has failed.
    """
    partition = PartitionModel("t", 0, bytes(16), stage="present")
    for batch in (KEPT, CLEANED, LAST):
        partition.add(batch)
    partition.others.append(partition.content.replaced(1, 2, []))
    partition.refused.add(REFUSED)
    disk = SimulatedDisk(Sometimes(), page_size=512)
    disk.make_directories("/logs/t-0")
    log = Log.open("/logs/t-0", "t", 0, SMALL, disk, registry=FileRegistry(), clock=SetClock())
    append(log, *map(bytearray, batches))
    return check_log(log, disk, partition, None, Random(1)).end


@pytest.mark.parametrize("before", [(KEPT, CLEANED, LAST), (KEPT, LAST)], ids=["sources", "output"])
def test_a_refused_append_may_leave_batches_on_either_side_of_a_swap(before: tuple[bytes, ...]) -> None:
    assert check(*before) == 3
    assert check(*before, REFUSED) == 4


@pytest.mark.parametrize("found", [(KEPT, LAST, STRANGER), (LAST, REFUSED), (KEPT, CLEANED, REFUSED)])
def test_a_log_that_lacks_a_batch_or_has_another_one_is_broken(found: tuple[bytes, ...]) -> None:
    with pytest.raises(Broken):
        check(*found)
