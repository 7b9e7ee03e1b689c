"""Leader epochs: which offsets belong to which, and where each ended."""

import pytest

from libs.commitlog.checkpoints.leader_epochs import LeaderEpochs
from libs.commitlog.model.errors import DirectoryDamaged


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(entries)


def test_an_epoch_is_recorded_even_if_nothing_is_written_in_it() -> None:
    """KAFKA-7415."""
    epoch_file = epochs((1, 0))
    epoch_file.assign(4, 10)
    epoch_file.assign(6, 10)
    assert epoch_file.entries() == [(1, 0), (6, 10)]


def test_a_new_epoch_removes_entries_that_contradict_it() -> None:
    epoch_file = epochs((1, 0), (3, 10), (5, 20))
    epoch_file.assign(4, 15)
    assert epoch_file.entries() == [(1, 0), (3, 10), (4, 15)]


def test_the_end_of_an_epoch_is_the_start_of_the_next() -> None:
    epoch_file = epochs((2, 5), (4, 10), (7, 30))
    assert epoch_file.end_offset_for(7, 44) == (7, 44)
    assert epoch_file.end_offset_for(8, 44) == (-1, -1)
    assert epoch_file.end_offset_for(4, 44) == (4, 30)
    assert epoch_file.end_offset_for(5, 44) == (4, 30)
    assert epoch_file.end_offset_for(1, 44) == (1, 5)
    assert epoch_file.end_offset_for(-1, 44) == (-1, -1)
    assert epochs().end_offset_for(0, 0) == (-1, -1)


def test_offsets_belong_to_the_epoch_that_began_last_before_them() -> None:
    epoch_file = epochs((2, 5), (4, 10))
    assert [epoch_file.epoch_for(offset) for offset in (4, 5, 9, 10, 99)] == [-1, 2, 2, 4, 4]


def test_truncation_keeps_the_epochs_of_what_remains() -> None:
    epoch_file = epochs((2, 5), (4, 10), (7, 30))
    epoch_file.truncate_end(30)
    assert epoch_file.entries() == [(2, 5), (4, 10)]
    assert epoch_file.latest == 4
    epoch_file.truncate_start(12)
    assert epoch_file.entries() == [(4, 12)]
    epoch_file.truncate_end(0)
    assert epoch_file.latest == -1


def test_the_file_is_read_as_it_was_written() -> None:
    epoch_file = epochs((2, 5), (4, 10))
    assert epoch_file.format() == b"0\n2\n2 5\n4 10\n"
    assert LeaderEpochs.parse(epoch_file.format(), "").entries() == epoch_file.entries()


@pytest.mark.parametrize("content", [b"1\n0\n", b"0\n2\n1 0\n", b"0\n1\nx y\n", b"0\n2\n4 0\n3 9\n", b"\xff", b"0\n1\n1\n"])
def test_a_damaged_file_is_recognised(content: bytes) -> None:
    with pytest.raises(DirectoryDamaged):
        LeaderEpochs.parse(content, "")
