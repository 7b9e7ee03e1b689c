"""The swap of a cleaned segment for its sources. A crash at any step shows either the sources or the output.

The steps: A resume point beyond the sources is on disk. Older resume points are removed, and `gapless` notes the swap. The
output's files are renamed to `.swap`, the `.log` last. The sources are renamed to `.deleted`, of all `.log` files the first one's
first. The output loses its suffix, the `.log` last. When readers had time to finish, the `.deleted` files are removed.

So a `.log.swap` is complete, and while the `.log` that it replaces exists, all sources exist. `stage` and `settle` wait for the
disk, in any thread that may. `perform` only renames, in the log's thread: a path names another file from one turn to the next,
and no file is opened in between.
"""

import errno
import logging
from collections.abc import Callable, Sequence

from libs.commitlog.files import contiguity
from libs.commitlog.files.contiguity import NotedSwap
from libs.commitlog.files.durable_files import read_file
from libs.commitlog.files.file_names import (
    CLEANED,
    DELETED,
    LOG,
    OF_SEGMENTS,
    RESUME,
    SWAP,
    TRANSACTION_INDEX,
    offsets_of,
    path_of,
    segment_files,
)
from libs.commitlog.files.filesystem import FileSystem
from libs.commitlog.files.sync import Lineage
from libs.commitlog.model.errors import LogDamaged
from libs.commitlog.segments.segment import Segment
from libs.commitlog.segments.segment_batches import SegmentBatches
from libs.commitlog.segments.segment_file import FileRegistry
from libs.lean_dataclass import dataclass

log = logging.getLogger("log")


@dataclass(slots=True)
class SegmentSwap:
    directory: str
    sources: tuple[int, ...]
    """The bases of the segments that are replaced. The output gets the first one's name."""
    end_offset: int
    size: int
    resume_offset: int
    """The offset of the resume point that stays. It names a segment that stays, too."""
    lineage: Lineage
    unlisted: tuple[NotedSwap, ...] | None
    """Earlier swaps that the resume point on disk may not know of; None: any."""
    transaction_index: bytes | None = None
    """The content of the output's `.txnindex`, once it is staged. None: it has none."""

    @property
    def noted(self) -> NotedSwap:
        return NotedSwap(self.base_offset, self.end_offset, self.size)

    @property
    def base_offset(self) -> int:
        return self.sources[0]

    def stage(self, fs: FileSystem) -> bool:
        """Stages the swap. It blocks until the output's `.swap` files are on disk. False: the log was cut meanwhile, and there
        are none.

        Raises OSError; a crash then leaves only files that an opening removes.
        """
        self._under_lineage(lambda: self._make_way(fs))
        fs.fsync_directory(self.directory)
        contiguity.note_swap(fs, self.directory, self.noted, self.unlisted)
        staged = self._under_lineage(lambda: self._name_as_swap(fs))
        fs.fsync_directory(self.directory)
        if staged:
            self.transaction_index = read_file(fs, path_of(self.directory, self.base_offset, TRANSACTION_INDEX + SWAP))
        return staged

    def perform(self, fs: FileSystem) -> None:
        """Renames the files. Raises OSError with all names as they were, or LogDamaged if they are not."""
        output = path_of(self.directory, self.base_offset, LOG + SWAP)
        if not fs.exists(output):
            raise FileNotFoundError(errno.ENOENT, "what was staged is gone", output)
        renamed: list[tuple[str, str]] = []
        try:
            for base in self.sources:
                for path in segment_files(fs, self.directory, base):
                    fs.rename(path, path + DELETED)
                    renamed.append((path, path + DELETED))
            for path in segment_files(fs, self.directory, self.base_offset, SWAP):
                fs.rename(path, path.removesuffix(SWAP))
                renamed.append((path, path.removesuffix(SWAP)))
        except OSError as error:
            try:
                for source, target in reversed(renamed):
                    fs.rename(target, source)
            except OSError as again:
                raise LogDamaged(f"{self.directory}: a swap of segments stopped half-way: {error}; {again}") from error
            raise

    def settle(self, fs: FileSystem) -> list[str]:
        """Ends the swap. It blocks until the new names are on disk, and returns the files that `remove_retired` removes later."""
        fs.fsync_directory(self.directory)
        return [path for base in self.sources for path in segment_files(fs, self.directory, base, DELETED)]

    def discard(self, fs: FileSystem) -> None:
        """Discards the output; the sources stay. It blocks."""
        for suffix in (SWAP, CLEANED):
            _unlink(fs, self.directory, self.base_offset, suffix)

    def _under_lineage(self, work: Callable[[], None]) -> bool:
        """Runs a step that a truncation must not overtake. A truncation removes staged files, and waits for this."""
        with self.lineage.held() as alive:
            if alive:
                work()
        return alive

    def _make_way(self, fs: FileSystem) -> None:
        names = fs.list_directory(self.directory)
        for offset in offsets_of(names, RESUME):
            if offset <= self.end_offset and offset != self.resume_offset:
                fs.unlink(path_of(self.directory, offset, RESUME))
        for name in names:
            if name.endswith(SWAP):
                fs.unlink(f"{self.directory}/{name}")  # a file of a swap that failed and could not be discarded
        for suffix in OF_SEGMENTS:
            # A leftover output of an earlier process would make the opening doubt our swap.
            for base in offsets_of(names, suffix + CLEANED):
                if base < self.base_offset:
                    fs.unlink(path_of(self.directory, base, suffix + CLEANED))
            # The files of an earlier swap: here their removal, which may take long for a large file, is harmless.
            for base in offsets_of(names, suffix + DELETED):
                if base in self.sources:
                    fs.unlink(path_of(self.directory, base, suffix + DELETED))

    def _name_as_swap(self, fs: FileSystem) -> None:
        for path in segment_files(fs, self.directory, self.base_offset, CLEANED):
            fs.rename(path, path.removesuffix(CLEANED) + SWAP)


def slot_of(segments: Sequence[Segment], sources: Sequence[Segment]) -> int:
    """The slot at which the log has exactly these segments, consecutive and sealed; -1 if it has not."""
    slot = next((at for at, segment in enumerate(segments) if segment is sources[0]), -1)
    there = segments[slot : slot + len(sources)]
    is_there = len(there) == len(sources) and all(a is b for a, b in zip(there, sources, strict=True))
    return slot if slot >= 0 and is_there and sources[-1] is not segments[-1] else -1


def finish_swaps(fs: FileSystem, directory: str) -> None:
    """Ends or undoes a swap that the last process left, before the log is opened. That process may have been Kafka's.

    As in Kafka, a complete output replaces the segments that begin within it. If the output is ours, it also replaces those of
    which it kept nothing. An output beyond a file that was still being written is one of several, which are not complete yet.
    Raises OSError, and LogDamaged if an output is not whole.
    """
    names = set(fs.list_directory(directory))
    if not any(name.endswith(SWAP) for name in names):
        return
    unfinished = min((offset for kind in OF_SEGMENTS for offset in offsets_of(names, kind + CLEANED)), default=None)
    for base in sorted(offsets_of(names, LOG + SWAP)):
        path = path_of(directory, base, LOG + SWAP)
        undone = unfinished is not None and base >= unfinished
        if not undone:
            try:
                _finish(fs, directory, base, _end_of(fs, directory, base))
            except LogDamaged as damage:
                if not fs.exists(path_of(directory, base, LOG)):
                    raise
                log.warning("swap undone: %s", damage)
                undone = True
        if undone:
            _unlink(fs, directory, base, SWAP)
    for name in sorted(name for name in fs.list_directory(directory) if name.endswith(SWAP)):
        path, final = f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP)}"
        if f"{name[:20]}{LOG}{CLEANED}" in names or fs.exists(final):
            fs.unlink(path)  # not swapped yet: the `.log` would have followed
        else:
            fs.rename(path, final)  # Kafka renames the `.log` first, and these after it
    fs.fsync_directory(directory)


def _finish(fs: FileSystem, directory: str, base: int, end_offset: int) -> None:
    if fs.exists(path_of(directory, base, LOG)):
        _refuse_unknown(fs, directory, base)
        _unlink(fs, directory, base, "")
    for other in offsets_of(fs.list_directory(directory), LOG):
        if base < other < end_offset:
            _unlink(fs, directory, other, "")
    fs.fsync_directory(directory)
    for path in segment_files(fs, directory, base, SWAP):
        fs.rename(path, path.removesuffix(SWAP))
    log.info("%s: the swap of the segment at %d, up to %d, is finished", directory, base, end_offset)


def _refuse_unknown(fs: FileSystem, directory: str, base: int) -> None:
    """Raises LogDamaged if an output is not what our cleaner wrote: it lost its end, or another program wrote it. Its sources are
    left."""
    path, gaps = path_of(directory, base, LOG + SWAP), contiguity.read_contiguity(fs, directory)
    size = fs.size_of(path)
    if gaps.before != contiguity.GAPS_ANYWHERE and not any((swap.base_offset, swap.size) == (base, size) for swap in gaps.swaps):
        raise LogDamaged(f"{path}: has {size} bytes, and no swap of that size was noted")


def _unlink(fs: FileSystem, directory: str, base: int, suffix: str) -> None:
    for path in segment_files(fs, directory, base, suffix):
        fs.unlink(path)


def _end_of(fs: FileSystem, directory: str, base: int) -> int:
    """The offset after the last batch of an output, or after its last source if that is known. Raises LogDamaged."""
    output, end = SegmentBatches(fs, directory, base, FileRegistry(), LOG + SWAP), base
    output.size = fs.size_of(output.file.path)
    for place in output.walk(0, output.size):
        if place.base_offset < end:
            raise LogDamaged(f"{output.file.path}: the batch at position {place.position} does not follow the one before it")
        end = place.last_offset + 1
    swaps = contiguity.read_contiguity(fs, directory).swaps
    swap_ends = [swap.end_offset for swap in swaps if (swap.base_offset, swap.size) == (base, output.size)]
    return max([end, *swap_ends[-1:]])
