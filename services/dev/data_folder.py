"""The data folder of a cluster in one process: one that is given and stays, or a temporary one that goes with the process."""

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from libs.commitlog.files.durable_files import make_directory
from libs.commitlog.files.filesystem import FileSystem, OsFileSystem
from libs.commitlog.model.errors import DirectoryLocked
from services.dev.settings import WrongSetting

PREFIX = "penstock-dev-"
LOCK = ".lock"
TEMPORARY_LOCK = ".temporary-lock"
"""Only a temporary folder has it. A data folder may have a name that begins with PREFIX, too."""
SOCKET_FOLDER_MAX = 80
ABANDONED_S = 60.0
"""A temporary folder that is younger may not be locked yet."""


class UnsyncedFileSystem(OsFileSystem):
    """The files of a temporary folder. Nobody reads them after the process, so none of them needs to be on a disk."""

    def __reduce__(self) -> tuple[type[OsFileSystem], tuple[()]]:
        return UnsyncedFileSystem, ()

    def fdatasync(self, fd: int) -> None:
        pass

    def fsync_directory(self, path: str) -> None:
        pass

    def sync_all(self, path: str) -> None:
        pass


class DataFolder:
    """A folder that one process holds, and a temporary one for its sockets, whose paths have to be short. `close` removes what is
    temporary."""

    def __init__(self, path: str, sockets: str, fs: FileSystem, locks: Sequence[int]) -> None:
        self.path = path
        self.sockets = sockets
        self.fs = fs
        self.temporary = path == sockets
        self._locks = locks

    def close(self) -> None:
        shutil.rmtree(self.sockets, ignore_errors=True)
        for lock in self._locks:
            self.fs.close(lock)


def open_data_folder(given: str) -> DataFolder:
    """Raises WrongSetting if another process holds it, or if it cannot be used."""
    remove_abandoned()
    lasting = OsFileSystem()
    locks = [_lock(os.path.abspath(given), lasting)] if given else []
    try:
        sockets = tempfile.mkdtemp(prefix=PREFIX)
        if len(os.fsencode(sockets)) > SOCKET_FOLDER_MAX:
            os.rmdir(sockets)
            raise WrongSetting(f"TMPDIR is {tempfile.gettempdir()!r}, too long for sockets below it; expected a shorter path")
        locks.append(lasting.lock(f"{sockets}/{TEMPORARY_LOCK}"))
    except OSError as error:
        raise WrongSetting(f"TMPDIR is {tempfile.gettempdir()!r}, where no folder can be made ({error.strerror})") from error
    if given:
        return DataFolder(os.path.abspath(given), sockets, lasting, locks)
    return DataFolder(sockets, sockets, UnsyncedFileSystem(), locks)


def _lock(path: str, fs: FileSystem) -> int:
    try:
        make_directory(fs, path)
        return fs.lock(f"{path}/{LOCK}")
    except DirectoryLocked as error:
        raise WrongSetting(f"--data is {path!r}, which another penstock dev uses; stop that one, or choose another") from error
    except OSError as error:
        raise WrongSetting(
            f"--data is {path!r}, which cannot be used ({error.strerror}); expected a folder that this user may write"
        ) from error


def remove_abandoned() -> None:
    """Removes temporary folders of this user whose processes were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.stat().st_uid == os.getuid() and _is_abandoned(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_abandoned(folder: Path) -> bool:
    """Raises OSError."""
    if folder.stat().st_mtime + ABANDONED_S > time.time():
        return False
    with open(folder / TEMPORARY_LOCK, "rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
