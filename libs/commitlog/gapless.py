"""The file `gapless`: from which offset on each batch of a log begins where the one before it ended.

It is empty at first, and is made before the first segment: a gap between two segments is then the end that a crash took of the
first one. Whoever makes gaps writes first up to where, durably. A directory of Kafka's has no such file: gaps may be anywhere.
"""

from libs.commitlog.durable_files import read_file, replace_file
from libs.commitlog.filesystem import FileSystem

FILE_NAME = "gapless"
NOWHERE = (1 << 63) - 1


def gapless_from(fs: FileSystem, directory: str) -> int:
    return parse_gapless(read_file(fs, f"{directory}/{FILE_NAME}"))


def parse_gapless(content: bytes | None) -> int:
    """Of a file that is not there, or damaged: nowhere."""
    if content is None or not (content == b"" or content.strip().isdigit()):
        return NOWHERE
    return int(content or 0)


def allow_gaps_before(fs: FileSystem, directory: str, offset: int) -> None:
    """On the disk when this returns. Raises OSError."""
    if gapless_from(fs, directory) < offset:
        replace_file(fs, f"{directory}/{FILE_NAME}", b"%d\n" % offset)


def begin_gapless(fs: FileSystem, directory: str) -> None:
    path = f"{directory}/{FILE_NAME}"
    if not fs.exists(path):
        fs.close(fs.open_append(path, create=True))
