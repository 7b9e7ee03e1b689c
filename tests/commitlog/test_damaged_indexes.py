"""An index that is damaged moves nothing: neither what a lookup finds, nor when retention takes a segment."""

from collections.abc import Callable
from pathlib import Path

import pytest

from libs.commitlog.partition_log.retention import RetentionPolicy
from tests.commitlog.harness import append, batch_at, offset_for_timestamp, open_log

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
BATCHES = 60
POLICY = RetentionPolicy(7 * DAY_MS, -1, True)
Damage = Callable[[bytes], bytes]


def flipped(position: int) -> Damage:
    def damage(content: bytes) -> bytes:
        changed = bytearray(content)
        changed[position] ^= 1
        return bytes(changed)

    return damage


DAMAGES: dict[str, tuple[str, Damage]] = {
    "a flipped bit makes the last timestamp an older one": (".timeindex", flipped(-10)),
    "a flipped bit makes the last timestamp a newer one": (".timeindex", flipped(-12)),
    "the last time entry names another batch": (".timeindex", flipped(-1)),
    "zeros behind the time entries": (".timeindex", lambda content: content + bytes(24)),
    "the last time entry is missing": (".timeindex", lambda content: content[:-12]),
    "no time entry is left": (".timeindex", lambda content: b""),
    "a flipped bit in the first time entry": (".timeindex", flipped(5)),
    "a flipped bit in the offset index": (".index", flipped(7)),
    "the offset index ends in zeros": (".index", lambda content: content + bytes(16)),
    "no offset entry is left": (".index", lambda content: b""),
}


def build(path: Path) -> None:
    log = open_log(path)
    for number in range(BATCHES):
        append(log, batch_at(log.log_end_offset, timestamp=NOW_MS + number * 1000))
    log.close(clean=True)
    assert len(list(path.glob("*.log"))) > 3


@pytest.mark.parametrize("restarts", [0, 1, 2])
@pytest.mark.parametrize("what", DAMAGES)
def test_a_damaged_index_takes_no_segment_away_and_hides_no_record(tmp_path: Path, what: str, restarts: int) -> None:
    build(tmp_path)
    suffix, damage = DAMAGES[what]
    file = tmp_path / f"{0:020d}{suffix}"
    file.write_bytes(damage(file.read_bytes()))
    for _ in range(restarts + 1):
        log = open_log(tmp_path, clean=True)
        for offset in range(BATCHES):
            assert log.read(offset, 1, BATCHES, at_least_one_batch=True) is not None
            result = offset_for_timestamp(log, NOW_MS + offset * 1000, BATCHES)
            assert result is not None
            assert result.offset == offset
        first = log.segments[0]
        assert first.max_timestamp == NOW_MS + (first.next_offset - 1) * 1000
        assert log.expired(POLICY, BATCHES, NOW_MS + DAY_MS) == []
        assert not first.is_unsynced
        log.close(clean=True)


@pytest.mark.parametrize("lost", [".index", ".timeindex"])
def test_the_indexes_of_a_sealed_segment_are_made_again_as_they_were(tmp_path: Path, lost: str) -> None:
    build(tmp_path)
    files = [tmp_path / f"{0:020d}{suffix}" for suffix in (".index", ".timeindex")]
    before = [file.read_bytes() for file in files]
    (tmp_path / f"{0:020d}{lost}").unlink()
    offset_for_timestamp(open_log(tmp_path, clean=True), NOW_MS + 1000, BATCHES)
    assert [file.read_bytes() for file in files] == before
