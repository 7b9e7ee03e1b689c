"""The file `gapless`: the offset from which on the batches of a log have no gaps, and the latest swaps.

It is made before the first segment, and is empty at first. A gap between two segments then means that a crash took the end of the
first one. Before a swap makes gaps, it durably writes their end here, and the segments that become one, since the newest resume
point still lists those. A directory of Kafka's has no such file: gaps may be anywhere.

Content: an offset, then a line for each swap with its begin, its end, and the size of its output.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from libs.commitlog.files.durable_files import read_file, replace_file
from libs.commitlog.files.filesystem import FileSystem

FILE_NAME = "gapless"
GAPS_ANYWHERE = (1 << 63) - 1


class NotedSwap(NamedTuple):
    """A swap by the cleaner: the segments in [base_offset, end_offset) are one of this size by now, or are about to be."""

    base_offset: int
    end_offset: int
    size: int

    def covers(self, base_offset: int, sizes: Mapping[int, int]) -> bool:
        """Whether the segment at that base offset was part of the swap, and the swap was completed. `sizes`: sizes of existing
        segments, by base offset."""
        return self.base_offset <= base_offset < self.end_offset and sizes.get(self.base_offset) == self.size


class Contiguity(NamedTuple):
    before: int
    swaps: tuple[NotedSwap, ...] = ()

    def format(self) -> bytes:
        return b"".join([b"%d\n" % self.before, *(b"%d %d %d\n" % swap for swap in self.swaps)])


def contiguous_from(fs: FileSystem, directory: str) -> int:
    return read_contiguity(fs, directory).before


def read_contiguity(fs: FileSystem, directory: str) -> Contiguity:
    return parse_contiguity(read_file(fs, f"{directory}/{FILE_NAME}"))


def parse_contiguity(content: bytes | None) -> Contiguity:
    """Reads the file. One that is missing or damaged means: gaps may be anywhere, and no swaps are known."""
    if content is None:
        return Contiguity(GAPS_ANYWHERE)
    try:
        first, *rest = content.decode("ascii").split("\n")
        swaps = tuple(NotedSwap(*map(int, line.split())) for line in rest if line)
        return Contiguity(int(first) if content else 0, swaps)
    except (ValueError, TypeError):
        return Contiguity(GAPS_ANYWHERE)


def allow_gaps_before(fs: FileSystem, directory: str, offset: int) -> None:
    """Allows gaps before an offset, durably when this returns. Raises OSError."""
    gaps = read_contiguity(fs, directory)
    if gaps.before < offset:
        replace_file(fs, f"{directory}/{FILE_NAME}", gaps._replace(before=offset).format())


def note_swap(fs: FileSystem, directory: str, swap: NotedSwap, unlisted: Sequence[NotedSwap] | None) -> None:
    """Notes a swap, durably when this returns. Raises OSError. `unlisted`: the earlier swaps that must stay; None: all."""
    gaps = read_contiguity(fs, directory)
    updated = Contiguity(max(gaps.before, swap.end_offset), (*(gaps.swaps if unlisted is None else unlisted), swap))
    replace_file(fs, f"{directory}/{FILE_NAME}", updated.format())


def begin_contiguous(fs: FileSystem, directory: str) -> None:
    path = f"{directory}/{FILE_NAME}"
    if not fs.exists(path):
        fs.close(fs.open_append(path, create=True))
