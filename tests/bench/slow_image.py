"""A file system of one file, an image of a disk, whose reads take a second while another file exists.

    python -m tests.bench.slow_image IMAGE MOUNT SLOW [--seconds 1]

Linux shows the image as MOUNT/disk.img. Nothing is cached between them: each read of the disk comes here. Writes are not slow.
"""

import argparse
import errno
import os
import stat
import time
from pathlib import Path
from typing import Any

import mfusepy  # type: ignore[import-untyped]

NAME = "/disk.img"


class SlowImage(mfusepy.Operations):  # type: ignore[misc]
    """The operations that a loop device needs. `slow`: reads take `seconds` while this file exists."""

    use_ns = True

    def __init__(self, image: Path, slow: Path, seconds: float) -> None:
        self._file = os.open(image, os.O_RDWR)
        self._slow, self._seconds = slow, seconds

    def getattr(self, path: str, fh: Any = None) -> dict[str, Any]:
        if path == "/":
            return {"st_mode": stat.S_IFDIR | 0o755, "st_nlink": 2}
        if path != NAME:
            raise mfusepy.FuseOSError(errno.ENOENT)
        return {"st_mode": stat.S_IFREG | 0o600, "st_nlink": 1, "st_size": os.fstat(self._file).st_size}

    def readdir(self, path: str, fh: Any) -> list[str]:
        return [".", "..", NAME[1:]]

    def open(self, path: str, fi: Any) -> int:
        fi.direct_io = 1
        return 0

    def read(self, path: str, size: int, offset: int, fi: Any) -> bytes:
        if self._slow.exists():
            time.sleep(self._seconds)
        return os.pread(self._file, size, offset)

    def write(self, path: str, data: bytes, offset: int, fi: Any) -> int:
        return os.pwrite(self._file, data, offset)

    def fsync(self, path: str, datasync: int, fi: Any) -> int:
        os.fsync(self._file)
        return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("image", "mount", "slow"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--seconds", type=float, default=1.0)
    options = parser.parse_args()
    mfusepy.FUSE(
        SlowImage(options.image, options.slow.absolute(), options.seconds), str(options.mount), foreground=True, raw_fi=True
    )


if __name__ == "__main__":
    main()
