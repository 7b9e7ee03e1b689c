"""One block of producer ids that a gateway has not begun, kept in a file, since the gateway may restart while the metadata store
is away.

The file is never synced. It counts only while the same page cache is behind it, which knows whether it was removed
(`libs/runtime/page_caches.py`). It counts only as the very file that was written: a copy of the directory must not give the same
ids to another gateway.
"""

import json
import logging
from collections.abc import Sequence

from libs.commitlog.files.durable_files import begin_file, path_beside
from libs.commitlog.files.filesystem import FileSystem
from libs.telemetry.logs import fields

log = logging.getLogger("transactions")

SIZE_MAX = 4096


class UnusedProducerIds:
    """The file `<data_dir>/producer_ids`. An empty `page_cache` equals no other."""

    def __init__(self, fs: FileSystem, data_dir: str, page_cache: str) -> None:
        self._fs = fs
        self._path = f"{data_dir}/producer_ids"
        self._page_cache = page_cache
        self._kept: range | None = None

    def find(self) -> range | None:
        """The block that the last incarnation left. It stays in the file until it is begun."""
        try:
            fd = self._fs.open_read(self._path)
        except OSError:
            return None
        try:
            record = json.loads(self._fs.pread(fd, min(self._fs.size(fd), SIZE_MAX), 0))
            first, count, page_cache, identity = record["first"], record["count"], record["page_cache"], record["identity"]
            if page_cache and page_cache == self._page_cache and identity == list(self._fs.identity(fd)):
                self._kept = range(first, first + count) or None
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("the file of unused producer ids cannot be read", extra=fields(path=self._path, reason=error))
        finally:
            self._fs.close(fd)
        return self._kept

    def keep(self, block: range) -> None:
        """Writes the block in place of the last one, before any of its ids is handed out."""
        if not self._page_cache:
            return
        try:
            file = begin_file(self._fs, self._path, b"")
            record = {"first": block.start, "count": len(block), "page_cache": self._page_cache}
            content = json.dumps(record | {"identity": self._fs.identity(file.fd)}).encode()
            if self._fs.pwritev(file.fd, [content], 0) == len(content):
                self._fs.rename(path_beside(self._path), self._path)
                self._kept = block
        except OSError as error:
            log.warning("unused producer ids were not written", extra=fields(path=self._path, reason=error))

    def begin(self, block: Sequence[int]) -> bool:
        """Removes the block from the file, before its first id is handed out. False: that failed, and the block must not be
        used."""
        if block != self._kept:
            return True
        try:
            self._fs.unlink(self._path)
        except OSError as error:
            log.error(
                "the file of unused producer ids cannot be removed; none is written from now on",
                extra=fields(path=self._path, reason=error),
            )
            self._page_cache = ""
            return False
        self._kept = None
        return True
