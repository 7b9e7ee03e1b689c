"""The mark of how far a process has seen the metadata, in a file of its data directory. By it a controller finds out that the
metadata store was restored from a backup (`libs/cluster/metadata_history.py`).

As the file of peers' addresses, it is renamed into place and never synced, so that nothing waits for it. After a power cut the
mark may be some seconds old, or gone.
"""

import asyncio
import logging

from libs.cluster.codec import RecordError, decode, encode
from libs.cluster.image import ClusterImage
from libs.cluster.metadata_history import mark_of, mark_of_lost, unanswered
from libs.cluster.records import NO_MARK, MetadataMark
from libs.commitlog.files.durable_files import begin_file, path_beside, read_file
from libs.commitlog.files.filesystem import FileSystem
from libs.telemetry.logs import fields

log = logging.getLogger("metadata")

WRITE_EVERY_S = 1.0


class MetadataMarks:
    """The file `<data_dir>/metadata-mark`. `former` is what the former life has seen."""

    def __init__(self, fs: FileSystem, data_dir: str) -> None:
        self._fs = fs
        self._path = f"{data_dir}/metadata-mark"
        self._image = ClusterImage()
        self._timer: asyncio.TimerHandle | None = None
        self.former = self._read()
        self._written = self.former

    def follow(self, _old: ClusterImage, new: ClusterImage) -> None:
        """Subscribe this to images of the store's own. The file follows within a second."""
        self._image = new
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WRITE_EVERY_S, self._write)

    def close(self) -> None:
        """Writes what is not written yet."""
        if self._timer is not None:
            self._timer.cancel()
            self._write()

    def store_went_back(self, last: ClusterImage) -> None:
        """Writes at once that `last` is of a branch that the store has lost. The next life reports it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not unanswered(last, [self._written]):
            self._put(mark_of_lost(last))

    def _write(self) -> None:
        self._timer = None
        image, mark = self._image, mark_of(self._image)
        if not mark.nonces or mark.nonces == self._written.nonces:
            return
        if unanswered(image, [self._written]):
            return  # the evidence of a restored store stays until a controller has answered it
        self._put(mark)

    def _put(self, mark: MetadataMark) -> None:
        try:
            begin_file(self._fs, self._path, encode(mark) + b"\n")
            self._fs.rename(path_beside(self._path), self._path)
            self._written = mark
        except OSError as error:
            log.warning("the mark of the metadata could not be written", extra=fields(path=self._path, reason=error))

    def _read(self) -> MetadataMark:
        try:
            content = read_file(self._fs, self._path)
            return decode(MetadataMark, content) if content else NO_MARK
        except (OSError, RecordError) as error:
            log.warning("the mark of the metadata cannot be read", extra=fields(path=self._path, reason=error))
            return NO_MARK
