"""The file that a backup is saved in: made whole or not at all, in the place of nothing else than an older backup."""

import os
import secrets
import stat

from libs.commitlog.files.durable_files import write_all
from libs.commitlog.files.filesystem import OsFileSystem
from services.controller.recovery.store_contents import RecoveryRefused


def refuse_special(path: str) -> None:
    """Raises RecoveryRefused if there is something that is no regular file: a backup would take its place."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        kind = "a directory" if stat.S_ISDIR(mode) else "a device, a pipe or a socket"
        raise RecoveryRefused(f"{path} is {kind}; expected a file, or a path where nothing is")


def save(path: str, content: bytes, mode: int = 0o644) -> None:
    """Replaces the file, or the one that a symbolic link names, and leaves nothing beside it. Raises RecoveryRefused."""
    target = os.path.realpath(path)
    beside = f"{target}.{secrets.token_hex(4)}.tmp"
    fs = OsFileSystem()
    try:
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            write_all(fs, fd, content)
            os.fsync(fd)
            os.rename(beside, target)
        except BaseException:
            os.unlink(beside)
            raise
        finally:
            os.close(fd)
        fs.fsync_directory(os.path.dirname(target))
    except OSError as reason:
        raise RecoveryRefused(f"{path} cannot be written: {reason.strerror}") from reason
