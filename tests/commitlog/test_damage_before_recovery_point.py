"""Synced data that is gone: the log does not open, names the loss, and changes nothing of the rest."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from libs.commitlog.files import contiguity
from libs.commitlog.files.filesystem import OsFileSystem
from libs.commitlog.model.config import LogConfig
from libs.commitlog.model.errors import LogDamaged
from libs.commitlog.opening.losses import accept
from libs.commitlog.opening.segment_list import find_missing, list_segments
from libs.commitlog.partition_log.log import Log
from tests.commitlog.harness import (
    QuickFileSystem,
    all_bytes,
    append,
    append_some,
    batch_at,
    files,
    open_log,
    read_batches,
    sync,
)


def contents(path: Path) -> dict[str, bytes]:
    """The files that cannot be rebuilt from others."""
    return {file.name: file.read_bytes() for file in path.iterdir() if file.suffix in (".log", ".resume") and file.is_file()}


def synced_log(path: Path, batches: int = 60) -> list[Path]:
    """A log of several segments with a resume point and records after it. Returns the segments for which the resume point
    vouches."""
    log = open_log(path)
    append_some(log, batches)
    sync(log, resume_point=True)
    append_some(log, 3)
    assert len(log.segments) > 4
    return [Path(segment.file.path) for segment in log.segments[:-1]]


def refuses(path: Path, words: str, **options: int) -> None:
    before = contents(path)
    for _ in range(2):
        with pytest.raises(LogDamaged, match=words):
            open_log(path, **options)
    assert contents(path) == before


DAMAGE: dict[str, tuple[Callable[[list[Path]], object], str]] = {
    "the first segment is gone": (lambda of: of[0].unlink(), "00000000000000000000.log .* is gone, it was synced"),
    "one in the middle is gone": (lambda of: of[2].unlink(), "is gone, it was synced"),
    "two in the middle are gone": (lambda of: [of[1].unlink(), of[2].unlink()], "is gone, it was synced"),
    "the one before the last is gone": (lambda of: of[-1].unlink(), "is gone, it was synced"),
    "one is shorter by a byte": (lambda of: os.truncate(of[1], of[1].stat().st_size - 1), "bytes, .* were synced"),
    "one is empty": (lambda of: os.truncate(of[1], 0), "has 0 bytes, .* were synced"),
    "one is longer": (lambda of: of[1].write_bytes(of[1].read_bytes() + b"x"), "bytes, .* were synced"),
    "one is a directory": (lambda of: [of[1].unlink(), of[1].mkdir()], "bytes, .* were synced"),
    "all are gone": (lambda of: [one.unlink() for one in of[0].parent.glob("*.log")], "no segment is left"),
}


@pytest.mark.parametrize("what", DAMAGE)
@pytest.mark.parametrize("clean", [False, True])
def test_a_log_does_not_open_when(tmp_path: Path, what: str, *, clean: bool) -> None:
    damage, words = DAMAGE[what]
    segments = synced_log(tmp_path)
    damage(segments)
    refuses(tmp_path, words, clean=clean)


def test_segments_that_retention_took_are_not_missed(tmp_path: Path) -> None:
    segments = synced_log(tmp_path)
    third = int(segments[2].stem)
    for path in segments[:2]:
        path.unlink()
    refuses(tmp_path, "is gone, it was synced", log_start_offset=third - 1)
    assert open_log(tmp_path, log_start_offset=third).log_start_offset == third


def test_where_the_start_is_not_known_the_first_segments_may_be_gone(tmp_path: Path) -> None:
    """A damaged checkpoint must not keep a log from opening (KAFKA-1758)."""
    segments = synced_log(tmp_path)
    shutil.copytree(tmp_path, tmp_path.parent / "other")
    segments[0].unlink()
    assert open_log(tmp_path, is_start_known=False).log_start_offset == int(segments[1].stem)
    other = tmp_path.parent / "other"
    (other / segments[1].name).unlink()
    with pytest.raises(LogDamaged):
        open_log(other, is_start_known=False)


def test_a_torn_end_after_the_resume_point_is_cut_as_ever(tmp_path: Path) -> None:
    synced_log(tmp_path)
    last = max(tmp_path.glob("*.log"))
    os.truncate(last, last.stat().st_size - 1)
    again = open_log(tmp_path)
    assert again.log_end_offset == 62
    assert again.truncated_bytes > 0


def test_a_resume_point_that_cannot_be_read_still_says_how_far_the_log_was_synced(tmp_path: Path) -> None:
    synced_log(tmp_path)
    for point in tmp_path.glob("*.resume"):
        point.write_bytes(b"?")
    victim = sorted(tmp_path.glob("*.log"))[2]
    sound = victim.read_bytes()
    victim.write_bytes(sound[:100] + bytes([sound[100] ^ 1]) + sound[101:])
    refuses(tmp_path, "log is whole up to byte 90 only: offsets .* to 59 were synced")
    victim.write_bytes(sound)
    assert open_log(tmp_path).log_end_offset == 63


@pytest.mark.parametrize("offset", [10**12, 7])
def test_a_resume_point_is_of_the_offset_in_it_whatever_its_name_says(
    tmp_path: Path, offset: int, caplog: pytest.LogCaptureFixture
) -> None:
    segments = synced_log(tmp_path)
    point = max(tmp_path.glob("*.resume"))
    point.rename(tmp_path / f"{offset:020d}.resume")
    log = open_log(tmp_path)
    assert log.log_end_offset == 63
    assert "is renamed, since its content is of offset 60" in caplog.text
    sync(log, resume_point=True)
    log.close(clean=True)
    assert open_log(tmp_path, clean=True).scanned_bytes == 0
    max(tmp_path.glob("*.resume")).rename(tmp_path / f"{offset:020d}.resume")
    segments[2].unlink()
    with pytest.raises(LogDamaged, match="is gone, it was synced"):
        open_log(tmp_path)


def test_a_resume_point_whose_name_and_content_are_damaged_is_believed_by_its_name(tmp_path: Path) -> None:
    """Otherwise synced records could be cut."""
    synced_log(tmp_path)
    point = max(tmp_path.glob("*.resume"))
    point.write_bytes(b"?")
    point.rename(tmp_path / f"{99:020d}.resume")
    refuses(tmp_path, "to 98 were synced")


def test_a_resume_point_that_was_copied_to_another_name_does_no_harm(tmp_path: Path) -> None:
    synced_log(tmp_path)
    shutil.copy(max(tmp_path.glob("*.resume")), tmp_path / f"{10**12:020d}.resume")
    assert open_log(tmp_path).log_end_offset == 63
    assert files(tmp_path, ".resume") == [f"{60:020d}.resume"]


def test_committed_records_are_not_cut_without_a_resume_point_either(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=LogConfig())
    append_some(log, 30)
    victim = list(log.active.walk(0, log.active.size))[10]
    sound = Path(log.active.file.path).read_bytes()
    os.truncate(log.active.file.path, victim.position + 30)
    refuses(tmp_path, "offsets 10 to 19 were synced", committed_offset=20)
    assert open_log(tmp_path, committed_offset=10).log_end_offset == 10
    Path(log.active.file.path).write_bytes(sound[: victim.position])
    refuses(tmp_path, "offsets 10 to 29 were synced", committed_offset=30)


def test_a_directory_that_was_emptied_is_no_new_log(tmp_path: Path) -> None:
    refuses(tmp_path, "no segment is left, offsets up to 6 were synced", committed_offset=7)
    assert open_log(tmp_path).log_end_offset == 0


def test_of_a_log_that_kafka_wrote_only_what_is_there_counts(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_some(log, 30)
    (tmp_path / contiguity.FILE_NAME).unlink()
    assert open_log(tmp_path, committed_offset=40).log_end_offset == 30


# --- what the cleaner may do between two lists


@pytest.mark.parametrize(
    ("sizes", "missing"),
    [
        ({0: 100, 10: 100, 20: 100, 30: 100}, []),
        ({0: 150, 30: 100}, []),  # the first three became one
        ({0: 150, 10: 100, 20: 100, 30: 100}, []),
        ({0: 50, 30: 100}, [0, 10, 20]),  # it is not what the cleaner made
        ({10: 100, 20: 100, 30: 100}, [0]),  # nothing there bears the first one's name
        ({0: 100, 20: 100, 30: 100}, [10]),  # the segment before it is unchanged, so it did not take this one in
        ({0: 150, 20: 100}, [30]),
        ({0: 100, 10: 100, 20: 100, 30: 99}, [30]),  # where the cleaner has not been
    ],
)
def test_the_cleaner_may_have_been_at_work_where_gapless_tells_of_a_swap(sizes: dict[int, int], missing: list[int]) -> None:
    listed = list_segments([(0, 100), (10, 100), (20, 100), (30, 100)])
    missing_segments = find_missing(listed, 40, sizes, log_start_offset=0, swaps=[contiguity.NotedSwap(0, 30, 150)])
    assert [segment.base_offset for segment in missing_segments] == missing


# --- the way out


def accepted(path: Path, **options: int) -> Log:
    """Opens, syncs and opens again, as the storage service does."""
    accept(OsFileSystem(), str(path))
    log = open_log(path, **options)
    sync(log)
    assert not (path / "accept-loss").exists()
    again = open_log(path, **options)
    assert all_bytes(again) == all_bytes(log)
    assert again.log_end_offset == log.log_end_offset
    append(again, batch_at(again.log_end_offset))
    return again


@pytest.mark.parametrize("what", [what for what in DAMAGE if "directory" not in what])
def test_an_accepted_loss_costs_no_more_than_what_is_lost_when(tmp_path: Path, what: str) -> None:
    damage, _ = DAMAGE[what]
    segments = synced_log(tmp_path)
    log = open_log(tmp_path)
    written = [bytes(batch) for batch in split(all_bytes(log))]
    damage(segments)
    remaining = [bytes(batch) for path in sorted(tmp_path.glob("*.log")) for batch in split(path.read_bytes())]
    again = accepted(tmp_path)
    reopened = [bytes(batch) for batch in split(all_bytes(again))]
    assert reopened[:-1] == remaining
    assert set(remaining) <= set(written)
    assert again.log_end_offset >= 61
    assert find_offsets(again) == [offset_of(batch) for batch in remaining if offset_of(batch) >= 0] + [again.log_end_offset - 1]


def split(content: bytes) -> list[bytes]:
    parts, position = [], 0
    while position + 12 <= len(content):
        size = int.from_bytes(content[position + 8 : position + 12], "big") + 12
        if position + size > len(content):
            break
        parts.append(content[position : position + size])
        position += size
    return parts


def offset_of(batch: bytes) -> int:
    return int.from_bytes(batch[:8], "big")


def find_offsets(log: Log) -> list[int]:
    return [place.base_offset for segment in log.segments for place in segment.walk(0, segment.size)]


def test_an_accepted_loss_of_the_end_gives_no_offset_twice(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=LogConfig())
    append_some(log, 30)
    sync(log, resume_point=True)
    os.truncate(log.active.file.path, 200)
    again = accepted(tmp_path, committed_offset=30)
    assert again.log_end_offset == 31
    assert [
        (batch.header.base_offset, batch.header.last_offset, batch.header.record_count) for batch in read_batches(again, 1)
    ] == [
        (1, 1, 1),
        (2, 29, 0),  # an empty batch, by which consumers go on
        (30, 30, 1),
    ]


def test_an_accepted_loss_of_more_than_a_batch_can_span_ends_in_a_batch_all_the_same(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=LogConfig())
    append_some(log, 30)
    sync(log, resume_point=True)
    os.truncate(log.active.file.path, 200)
    again = accepted(tmp_path, committed_offset=5 << 31)
    assert again.log_end_offset == (5 << 31) + 1
    last = read_batches(again, 2)[0].header
    assert (last.base_offset, last.last_offset, last.record_count) == (4 << 31, (5 << 31) - 1, 0)
    assert len(files(tmp_path, ".log")) == 3


def test_an_accepted_loss_of_everything_gives_no_offset_twice(tmp_path: Path) -> None:
    synced_log(tmp_path)
    for file in tmp_path.iterdir():
        file.unlink()
    assert accepted(tmp_path, committed_offset=63).log_end_offset == 64


def test_a_loss_is_accepted_once(tmp_path: Path) -> None:
    segments = synced_log(tmp_path)
    segments[1].unlink()
    accepted(tmp_path)
    segments[2].unlink()
    refuses(tmp_path, "is gone, it was synced")


def test_an_acceptance_that_a_crash_cut_short_still_holds(tmp_path: Path) -> None:
    segments = synced_log(tmp_path)
    segments[1].unlink()
    accept(QuickFileSystem(), str(tmp_path))
    first = all_bytes(open_log(tmp_path))
    assert all_bytes(open_log(tmp_path)) == first
    assert (tmp_path / "accept-loss").exists()
    accepted(tmp_path)
