"""What a storage node still has of what its former lives wrote: all of it, if each of them stopped cleanly, or the kernel lived
on and the page cache with it. Topics that acknowledge from the page cache choose their leaders by that.
"""

import json
import logging
from collections.abc import Sequence

from libs.commitlog.directory import is_retired, stopped_cleanly
from libs.commitlog.durable_files import read_file, replace_file
from libs.commitlog.filesystem import FileSystem

log = logging.getLogger(__name__)


def survived_from(fs: FileSystem, data_dir: str, incarnation: int, *, boot_id: str, directories: Sequence[str]) -> int:
    """The incarnation since which nothing was lost, `incarnation` itself if the last life may have lost something.

    To be called once in a life, before the log directories are opened: opening them takes their marks away. It is on disk when
    this returns. A directory more or less than last time, or one that is retired, counts as a loss: nobody can tell what became
    of it meanwhile. `boot_id` "" is unknown, and like no other.
    """
    path = f"{data_dir}/survival"
    wanted = sorted(directories)
    since = incarnation
    last = _read(fs, path)
    if last is not None and last.get("directories") == wanted and not any(is_retired(fs, each) for each in wanted):
        lived_on = bool(boot_id) and last.get("boot_id") == boot_id
        if lived_on or all(stopped_cleanly(fs, each) for each in wanted):
            found = last.get("survived_from")
            since = found if isinstance(found, int) and 0 < found <= incarnation else incarnation
    content = json.dumps({"survived_from": since, "boot_id": boot_id, "directories": wanted})
    replace_file(fs, path, content.encode() + b"\n")
    return since


def forget_survival(fs: FileSystem, data_dir: str) -> None:
    """A directory has failed in this life: the page cache need not hold any more what its disk lacks, though the kernel lives on.
    The next life counts as one that may have lost something. Raises OSError."""
    path = f"{data_dir}/survival"
    if fs.exists(path):
        fs.unlink(path)
        fs.fsync_directory(data_dir)


def _read(fs: FileSystem, path: str) -> dict[str, object] | None:
    content = read_file(fs, path)
    if content is None:
        return None
    try:
        found = json.loads(content)
    except ValueError as error:
        log.warning("%s is damaged, the last life counts as lost: %s", path, error)
        return None
    return found if isinstance(found, dict) else None
