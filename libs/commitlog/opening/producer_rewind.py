"""Producer state after a truncation: snapshots beyond the cut go first, the rest is replayed from what remains."""

from collections.abc import Mapping

from libs.commitlog.files.durable_files import read_file
from libs.commitlog.files.file_names import CLEANED, RESUME, SNAPSHOT, SWAP, offset_of, path_of
from libs.commitlog.files.filesystem import FileSystem
from libs.commitlog.model.errors import DirectoryDamaged
from libs.commitlog.opening import recovery
from libs.commitlog.opening.resume_points import parse_resume
from libs.commitlog.producers.producer_entries import ProducerEntry
from libs.commitlog.producers.producer_snapshot import parse_snapshot
from libs.commitlog.producers.producer_state import ProducerState
from libs.commitlog.segments.segment import Segment


def remove_state_beyond(fs: FileSystem, directory: str, resumes_max: int, snapshots_max: int) -> None:
    """Removes resume points and snapshots past these offsets, on the disk too: a resume point vouches for the log before it.

    It also removes a cleaned segment that is about to replace its sources, since that may hold records that are cut.
    """
    greatest = {RESUME: resumes_max, SNAPSHOT: snapshots_max}
    doomed = [path_of(directory, offset, suffix) for suffix, offset in _saved_states(fs, directory) if offset > greatest[suffix]]
    doomed += [f"{directory}/{name}" for name in fs.list_directory(directory) if name.endswith((CLEANED, SWAP))]
    for path in doomed:
        fs.unlink(path)
    if doomed:
        fs.fsync_directory(directory)


def producers_at(fs: FileSystem, directory: str, segments: list[Segment], end_offset: int, ids_max: int) -> ProducerState:
    """The producer state as of `end_offset`, from the newest sound save and the batches after it.

    A save from before the first segment does not count, since batches between the two left the log. An incomplete state would
    refuse a producer's next batch, while a state without the producer accepts it. No more than `ids_max` producers are known
    then, unless their transactions are open.
    """
    first_offset = segments[0].base_offset if segments else end_offset
    # Resume points come first, even older ones: a snapshot holds only the last batch of each producer.
    for suffix, offset in sorted(_saved_states(fs, directory), key=lambda state: (state[0] == RESUME, state[1]), reverse=True):
        if first_offset <= offset <= end_offset:
            path = path_of(directory, offset, suffix)
            content = read_file(fs, path) or b""
            try:
                entries = parse_resume(content, path).producers if suffix == RESUME else parse_snapshot(content, path)
            except DirectoryDamaged:
                continue
            return _replayed(segments, offset, end_offset, entries, ids_max)
    return _replayed(segments, 0, end_offset, {}, ids_max)


def _replayed(
    segments: list[Segment], start_offset: int, end_offset: int, entries: Mapping[int, ProducerEntry], ids_max: int
) -> ProducerState:
    producers = ProducerState(entries)
    later = [segment for segment in segments if segment.next_offset > start_offset]
    recovery.replay_headers(later, start_offset, end_offset, producers, ids_max)
    producers.take_ended()  # their ends were already reported at that time
    return producers


def _saved_states(fs: FileSystem, directory: str) -> list[tuple[str, int]]:
    """The saved states, each as (suffix, offset)."""
    return [
        (suffix, offset)
        for name in fs.list_directory(directory)
        for suffix in (RESUME, SNAPSHOT)
        if (offset := offset_of(name, suffix)) is not None
    ]
