"""Small files that are replaced whole: written beside, synced, renamed over, and the directory synced."""

import posixpath
from collections.abc import Hashable
from functools import partial
from typing import NamedTuple

from libs.commitlog.files.checked_content import CheckedContent
from libs.commitlog.files.file_names import TEMPORARY
from libs.commitlog.files.filesystem import FileSystem, OpenFile
from libs.commitlog.files.page_cache import off_loop
from libs.commitlog.model.errors import DirectoryDamaged


class FileWrite(NamedTuple):
    """A file to be replaced, by code that may block."""

    path: str
    content: bytes | CheckedContent


def make_directory(fs: FileSystem, path: str) -> None:
    """Makes a directory and its parents. Their names are on disk afterwards, so that a sync within the directory cannot lose the
    directory itself."""
    missing, at = [], path
    while at not in ("", "/") and not fs.exists(at):
        missing.append(at)
        at = posixpath.dirname(at)
    fs.make_directories(path)
    for made in missing:
        fs.fsync_directory(posixpath.dirname(made) or ".")


def replace_file(fs: FileSystem, path: str, content: bytes | CheckedContent) -> None:
    """Replaces a file. Afterwards it holds `content`; after a crash, perhaps its old content; never a mixture."""
    file = begin_file(fs, path, content)
    fs.fdatasync(file.fd)
    fs.rename(path_beside(path), path)
    fs.fsync_directory(posixpath.dirname(path))


def begin_file(fs: FileSystem, path: str, content: bytes | CheckedContent) -> OpenFile:
    """Writes the new content beside `path`, without syncing it."""
    beside = path_beside(path)
    if fs.exists(beside):
        fs.unlink(beside)
    file = OpenFile(fs, fs.open_append(beside, create=True))
    for position, piece in ((0, content),) if isinstance(content, bytes) else content.placed():
        write_all(fs, file.fd, piece, position)
    return file


def path_beside(path: str) -> str:
    return path + TEMPORARY


def write_all(fs: FileSystem, fd: int, content: bytes, start: int = 0) -> None:
    position = 0
    while position < len(content):
        position += fs.pwritev(fd, [memoryview(content)[position:]], start + position)


def read_file(fs: FileSystem, path: str, owner: Hashable = None) -> bytes | None:
    """The content of a file, None if it does not exist. Raises NotInPageCache within a lookup that must not wait. Give an
    `owner` that is the file's own, where the path may name another file later: see `OpenFiles.open`."""
    return off_loop(path, ("content", path, owner), partial(_content_of, fs, path))


def _content_of(fs: FileSystem, path: str) -> bytes | None:
    try:
        file = OpenFile(fs, fs.open_read(path))
    except FileNotFoundError:
        return None
    size = fs.size(file.fd)
    parts: list[bytes] = []
    position = 0
    while position < size:
        part = fs.pread(file.fd, size - position, position)
        if not part:
            break
        parts.append(part)
        position += len(part)
    return b"".join(parts)


def format_checkpoint(lines: list[str]) -> bytes:
    """A checkpoint in Kafka's text form: a version, a count, one entry a line."""
    return "\n".join(["0", str(len(lines)), *lines, ""]).encode()


def parse_checkpoint(content: bytes, path: str) -> list[list[str]]:
    """The entries of a checkpoint, split at blanks. An empty file has none. Raises DirectoryDamaged."""
    try:
        lines = content.decode().split("\n")
        if lines == [""]:
            return []
        if lines[0].strip() != "0":
            raise ValueError(f"version {lines[0]!r}")
        entries = [line.split() for line in lines[2:] if line.strip()]
        if int(lines[1]) != len(entries):
            raise ValueError(f"{len(entries)} entries, not {lines[1]}")
    except (ValueError, IndexError) as error:
        raise DirectoryDamaged(f"{path}: {error}") from error
    return entries
