"""The file names of a log: an offset in 20 digits, the kind of file, and perhaps a state (`.deleted`, `.cleaned`, `.swap`). As in
Kafka.

`<offset>.log` is a segment, and its indexes have its name. The name of a snapshot or resume point has the offset of its state.
"""

from collections.abc import Iterable

from libs.commitlog.files.filesystem import FileSystem

LOG = ".log"
INDEX = ".index"
TIME_INDEX = ".timeindex"
TRANSACTION_INDEX = ".txnindex"
OF_SEGMENTS = (TRANSACTION_INDEX, INDEX, TIME_INDEX, LOG)
"""The suffixes of a segment's files, in the order in which a cleaned segment is renamed. Its `.log` comes last: it proves that
the others have been renamed."""

SNAPSHOT = ".snapshot"
RESUME = ".resume"

# These follow the whole name.
CLEANED = ".cleaned"
"""A file that the cleaner is writing, or has written."""
SWAP = ".swap"
"""A file that is cleaned and complete, and about to replace the file without this suffix."""
DELETED = ".deleted"
"""A file that left its log. It is removed when readers had time to finish."""
TEMPORARY = ".tmp"
"""A small file that is written before it replaces another one."""
LEFTOVERS = (TEMPORARY, CLEANED, DELETED)
"""The files that an opening log removes. A `.swap` file may still be needed."""


def path_of(directory: str, offset: int, suffix: str) -> str:
    return f"{directory}/{offset:020d}{suffix}"


def offset_of(name: str, suffix: str) -> int | None:
    """The offset in a file name with that suffix. None if the name has another form."""
    digits = name[:20]
    matches = len(name) == 20 + len(suffix) and name.endswith(suffix) and digits.isascii() and digits.isdigit()
    return int(digits) if matches else None


def offsets_of(names: Iterable[str], suffix: str) -> list[int]:
    return [offset for name in names if (offset := offset_of(name, suffix)) is not None]


def by_suffix(names: Iterable[str]) -> dict[str, list[int]]:
    """The offsets of `offsets_of` for every suffix in one pass: a start lists thousands of directories."""
    offsets: dict[str, list[int]] = {}
    for name in names:
        digits, suffix = name[:20], name[20:]
        if len(digits) == 20 and suffix[:1] == "." and digits.isascii() and digits.isdigit():
            offsets.setdefault(suffix, []).append(int(digits))
    return offsets


def segment_files(fs: FileSystem, directory: str, base_offset: int, suffix: str = "") -> list[str]:
    """The existing files of one segment, in the order of OF_SEGMENTS. `suffix` follows the whole name."""
    paths = [path_of(directory, base_offset, kind + suffix) for kind in OF_SEGMENTS]
    return [path for path in paths if fs.exists(path)]
