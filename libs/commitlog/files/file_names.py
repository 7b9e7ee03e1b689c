"""How the files of a log are called: an offset in 20 digits, what is in it, and perhaps what is to become of it. As in Kafka.

`<offset>.log` is a segment, and its indexes have its name. Snapshots and resume points bear the offset that they are as of.
"""

from collections.abc import Iterable

from libs.commitlog.filesystem import FileSystem

LOG = ".log"
INDEX = ".index"
TIME_INDEX = ".timeindex"
TRANSACTION_INDEX = ".txnindex"
OF_SEGMENTS = (TRANSACTION_INDEX, INDEX, TIME_INDEX, LOG)
"""In the order in which a cleaned segment's names change: a `.log` says that the others have changed."""

SNAPSHOT = ".snapshot"
RESUME = ".resume"

# Behind the whole name.
CLEANED = ".cleaned"
"""The cleaner is writing it, or has written it."""
SWAP = ".swap"
"""Cleaned and whole: about to take the place of what has the name without this."""
DELETED = ".deleted"
"""Left its log; removed when readers had their time."""
TEMPORARY = ".tmp"
"""A small file that is written before it replaces another."""
LEFTOVERS = (TEMPORARY, CLEANED, DELETED)
"""What an opening log removes; what is called `.swap` may still be needed."""


def path_of(directory: str, offset: int, suffix: str) -> str:
    return f"{directory}/{offset:020d}{suffix}"


def offset_of(name: str, suffix: str) -> int | None:
    """None if it is called otherwise."""
    digits = name[:20]
    is_one = len(name) == 20 + len(suffix) and name.endswith(suffix) and digits.isascii() and digits.isdigit()
    return int(digits) if is_one else None


def offsets_of(names: Iterable[str], suffix: str) -> list[int]:
    return [offset for name in names if (offset := offset_of(name, suffix)) is not None]


def by_suffix(names: Iterable[str]) -> dict[str, list[int]]:
    """`offsets_of` for every suffix that there is, in one go: thousands of directories are listed at a start."""
    found: dict[str, list[int]] = {}
    for name in names:
        digits, suffix = name[:20], name[20:]
        if len(digits) == 20 and suffix[:1] == "." and digits.isascii() and digits.isdigit():
            found.setdefault(suffix, []).append(int(digits))
    return found


def segment_files(fs: FileSystem, directory: str, base_offset: int, suffix: str = "") -> list[str]:
    """Those that are there of one segment, in the order of OF_SEGMENTS. `suffix`: behind the whole name."""
    paths = [path_of(directory, base_offset, kind + suffix) for kind in OF_SEGMENTS]
    return [path for path in paths if fs.exists(path)]
