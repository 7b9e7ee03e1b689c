"""One block of producer ids that a gateway has not begun, in a file: its next life may start while the metadata store is away.

Never synced. The file counts only under the same kernel, whose page cache knows that it was taken away, and only as the very file
that was written: a copy of the directory must not give the same ids to others.
"""

import json
import logging
from collections.abc import Sequence

from libs.commitlog.durable_files import begin_file, path_beside
from libs.commitlog.filesystem import FileSystem
from libs.telemetry.logs import fields

log = logging.getLogger(__name__)

SIZE_MAX = 4096


class SpareIds:
    """`<data_dir>/producer_ids`. `boot_id` "" is like no other."""

    def __init__(self, fs: FileSystem, data_dir: str, boot_id: str) -> None:
        self._fs = fs
        self._path = f"{data_dir}/producer_ids"
        self._boot_id = boot_id
        self._kept: range | None = None

    def find(self) -> range | None:
        """What the last life left. It stays kept until it is begun."""
        try:
            fd = self._fs.open_read(self._path)
        except OSError:
            return None
        try:
            found = json.loads(self._fs.pread(fd, min(self._fs.size(fd), SIZE_MAX), 0))
            first, count, boot_id, identity = found["first"], found["count"], found["boot_id"], found["identity"]
            if boot_id and boot_id == self._boot_id and identity == list(self._fs.identity(fd)):
                self._kept = range(first, first + count) or None
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("spare producer ids cannot be read", extra=fields(path=self._path, reason=error))
        finally:
            self._fs.close(fd)
        return self._kept

    def keep(self, block: range) -> None:
        """Instead of what was kept before, and before any id of `block` is given away."""
        if not self._boot_id:
            return
        try:
            file = begin_file(self._fs, self._path, b"")
            told = {"first": block.start, "count": len(block), "boot_id": self._boot_id}
            content = json.dumps(told | {"identity": self._fs.identity(file.fd)}).encode()
            if self._fs.pwritev(file.fd, [content], 0) == len(content):
                self._fs.rename(path_beside(self._path), self._path)
                self._kept = block
        except OSError as error:
            log.warning("spare producer ids not kept", extra=fields(path=self._path, reason=error))

    def begin(self, block: Sequence[int]) -> bool:
        """Before its first id is given away. False: it could be found again, and must not be used."""
        if block != self._kept:
            return True
        try:
            self._fs.unlink(self._path)
        except OSError as error:
            log.error(
                "spare producer ids cannot be begun, none are kept from now on", extra=fields(path=self._path, reason=error)
            )
            self._boot_id = ""
            return False
        self._kept = None
        return True
