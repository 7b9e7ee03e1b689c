"""The identity of the page cache behind a path. While it stays the same, what any process wrote there is there, synced or not.

The kernel's boot id is not enough. A volume that is detached and attached again comes back to the same kernel without what was
never written to it. So the disk's sequence number (Linux 5.15) counts too. The kernel gives another one whenever a disk appears,
or a loop device gets a file. An unmount alone loses nothing, since it writes everything back.

A file system without a disk of its own, such as tmpfs, overlayfs, btrfs or NFS, goes by the unique id of its mount (Linux 6.8).
That one differs after each start of a container, though the page cache may have lived on. Without both numbers the identity is
unknown.
"""

import ctypes
import os
from pathlib import Path

from libs.runtime.identity import boot_id

DISKS = Path("/sys/dev/block")
_AT_FDCWD, _MNT_ID_UNIQUE = -100, 0x4000
_STATX_BYTES, _MASK_AT, _MNT_ID_AT = 256, 0, 0x90
"""`struct statx` of linux/stat.h: its size, `stx_mask` and `stx_mnt_id`."""


def page_cache_id(path: str) -> str:
    """Empty: unknown, and equal to no other. A path that does not exist yet counts as the directory that will hold it."""
    while not os.path.exists(path):
        path = os.path.dirname(os.path.abspath(path))
    file_system = disk_id(os.stat(path).st_dev) or mount_id(path)
    return f"{boot_id()} {file_system}" if file_system else ""


def disk_id(device: int, disks: Path = DISKS) -> str:
    """The device's number, and the sequence number of its disk. Empty: there is no disk, or the kernel is older."""
    name = f"{os.major(device)}:{os.minor(device)}"
    directory = Path(os.path.realpath(disks / name))
    for holder in (directory, directory.parent):  # a partition is a directory in that of its disk
        try:
            return f"disk {name} {int((holder / 'diskseq').read_text(encoding='utf-8'))}"
        except (OSError, ValueError):
            continue
    return ""


def mount_id(path: str) -> str:
    """The unique id of the mount. Empty: the kernel is older."""
    answer = ctypes.create_string_buffer(_STATX_BYTES)
    try:
        failed = ctypes.CDLL(None).statx(_AT_FDCWD, os.fsencode(path), 0, _MNT_ID_UNIQUE, answer)
    except (OSError, AttributeError):
        return ""
    if failed or not ctypes.c_uint32.from_buffer(answer, _MASK_AT).value & _MNT_ID_UNIQUE:
        return ""
    return f"mount {ctypes.c_uint64.from_buffer(answer, _MNT_ID_AT).value}"
