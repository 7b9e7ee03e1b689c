"""The record of whether a storage node may have lost records of its former processes. It has them all if each process stopped
cleanly, or if the page cache lived on: the same kernel, which never lost sight of the disks. Topics that acknowledge from the
page cache choose their leaders by that."""

import json
import logging
from collections.abc import Callable, Sequence

from libs.commitlog.files.durable_files import read_file, replace_file
from libs.commitlog.files.filesystem import FileSystem
from libs.commitlog.model.errors import NO_ROOM
from libs.commitlog.partition_log.directory import is_retired, stopped_cleanly

log = logging.getLogger("process")


def survived_from(
    fs: FileSystem, data_dir: str, incarnation: int, *, page_cache_of: Callable[[str], str], directories: Sequence[str]
) -> int:
    """The incarnation since which nothing was lost. It is `incarnation` itself if the former process may have lost something.

    Call it once in a process, before the log directories are opened, since opening them removes their marks. The result is on
    disk when this returns. A full disk that cannot take it loses the record, so the next process counts as one that may have lost
    something. Raises OSError for any other failure.

    A directory more or less than last time, or one that is retired, counts as a loss, since its history in between is unknown.
    `page_cache_of` gives the identity of the page cache behind a directory (`libs/runtime/page_caches.py`). "" is unknown, and
    equals no other.
    """
    path = f"{data_dir}/survival"
    paths = sorted(directories)
    page_caches = {each: page_cache_of(each) for each in paths}
    since = incarnation
    last = _read(fs, path)
    if last is not None and last.get("directories") == paths and not any(is_retired(fs, each) for each in paths):
        lived_on = all(page_caches.values()) and last.get("page_caches") == page_caches
        if lived_on or all(stopped_cleanly(fs, each) for each in paths):
            recorded = last.get("survived_from")
            since = recorded if isinstance(recorded, int) and 0 < recorded <= incarnation else incarnation
    record = {"survived_from": since, "page_caches": page_caches, "directories": paths}
    if record != last:
        try:
            replace_file(fs, path, json.dumps(record).encode() + b"\n")
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            forget_survival(fs, data_dir)
            log.warning(
                "%s cannot be written (%s), so the next process counts as one that may lack records", path, error.strerror
            )
    return since


def forget_survival(fs: FileSystem, data_dir: str) -> None:
    """Records that a directory has failed: the page cache may lack what its disk lacks, though the kernel lives on. The next
    process then counts as one that may have lost something. Raises OSError."""
    path = f"{data_dir}/survival"
    if fs.exists(path):
        fs.unlink(path)
        fs.fsync_directory(data_dir)


def _read(fs: FileSystem, path: str) -> dict[str, object] | None:
    content = read_file(fs, path)
    if content is None:
        return None
    try:
        record = json.loads(content)
    except ValueError as error:
        log.warning("%s is damaged, so records of the former process may be lost: %s", path, error)
        return None
    return record if isinstance(record, dict) else None
