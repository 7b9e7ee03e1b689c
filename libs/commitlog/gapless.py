"""The file `gapless`: from which offset on each batch of a log begins where the one before it ended, and what was swapped lately.

It is empty at first, and is made before the first segment: a gap between two segments is then the end that a crash took of the
first one. Whoever makes gaps writes first up to where, durably, and which segments become one: the newest resume point still
lists those. A directory of Kafka's has no such file: gaps may be anywhere.

An offset, then a line for each swap: where it begins and ends, and the bytes of what took the place.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from libs.commitlog.durable_files import read_file, replace_file
from libs.commitlog.filesystem import FileSystem

FILE_NAME = "gapless"
NOWHERE = (1 << 63) - 1


class NotedSwap(NamedTuple):
    """Segments in [base_offset, end_offset) are one of this size by now, or about to be."""

    base_offset: int
    end_offset: int
    size: int

    def covers(self, base_offset: int, sizes: Mapping[int, int]) -> bool:
        """Whether the segment there is part of it, and it has come about. `sizes`: of what is there, by base offset."""
        return self.base_offset <= base_offset < self.end_offset and sizes.get(self.base_offset) == self.size


class Gaps(NamedTuple):
    before: int
    swaps: tuple[NotedSwap, ...] = ()

    def format(self) -> bytes:
        return b"".join([b"%d\n" % self.before, *(b"%d %d %d\n" % swap for swap in self.swaps)])


def gapless_from(fs: FileSystem, directory: str) -> int:
    return read_gaps(fs, directory).before


def read_gaps(fs: FileSystem, directory: str) -> Gaps:
    return parse_gaps(read_file(fs, f"{directory}/{FILE_NAME}"))


def parse_gaps(content: bytes | None) -> Gaps:
    """Of a file that is not there, or damaged: anywhere, and no swaps."""
    if content is None:
        return Gaps(NOWHERE)
    try:
        first, *rest = content.decode("ascii").split("\n")
        swaps = tuple(NotedSwap(*map(int, line.split())) for line in rest if line)
        return Gaps(int(first) if content else 0, swaps)
    except (ValueError, TypeError):
        return Gaps(NOWHERE)


def allow_gaps_before(fs: FileSystem, directory: str, offset: int) -> None:
    """On the disk when this returns. Raises OSError."""
    gaps = read_gaps(fs, directory)
    if gaps.before < offset:
        replace_file(fs, f"{directory}/{FILE_NAME}", gaps._replace(before=offset).format())


def note_swap(fs: FileSystem, directory: str, swap: NotedSwap, unlisted: Sequence[NotedSwap] | None) -> None:
    """On the disk when this returns. Raises OSError. `unlisted`: the earlier ones that must stay; None: all."""
    gaps = read_gaps(fs, directory)
    noted = Gaps(max(gaps.before, swap.end_offset), (*(gaps.swaps if unlisted is None else unlisted), swap))
    replace_file(fs, f"{directory}/{FILE_NAME}", noted.format())


def begin_gapless(fs: FileSystem, directory: str) -> None:
    path = f"{directory}/{FILE_NAME}"
    if not fs.exists(path):
        fs.close(fs.open_append(path, create=True))
