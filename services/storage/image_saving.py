"""The copy of the cluster image that a storage node keeps in its data directory. If the metadata store is lost as a whole,
topics, ids, replicas and configs are rebuilt from these copies (`services/controller/recovery/`).

It follows changes of what outlives processes. Leaders and in-sync replicas change more often, and the logs know them better.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial

from libs.cluster.image import ClusterImage, PartitionChange
from libs.cluster.peer_image import lasting_lines_of
from libs.cluster.saved_metadata import IMAGE_FILE, file_of
from libs.commitlog.files.durable_files import replace_file
from libs.commitlog.files.filesystem import FileSystem
from libs.telemetry.logs import fields
from services.storage.threads.offload import Offload

log = logging.getLogger("metadata")

AFTER_S = 1.0
"""The time from a change to its copy, in which more changes may come."""
RETRY_S = 10.0
SHARE = 20
"""Of a time so many times as long as a copy takes, one copy is made at most."""
LINES_PER_TURN = 20
"""So many take about a millisecond."""
LAST_COPY_S_MAX = 2.0
"""The longest wait of a stop for the last copy."""


class ImageSaving:
    """The file `<data_dir>/cluster-image`. `files` is a thread of its own: nothing else waits for this disk."""

    def __init__(self, fs: FileSystem, data_dir: str, files: Offload, wall_ms: Callable[[], int]) -> None:
        self._fs = fs
        self._path = f"{data_dir}/{IMAGE_FILE}"
        self._files = files
        self._wall_ms = wall_ms
        self._image = ClusterImage()
        self._changed = False
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    def follow(self, old: ClusterImage, new: ClusterImage) -> None:
        """Subscribe this to images of the store's own."""
        self._image = new
        if not self._changed and is_concerned(old, new):
            self._changed = True
            if self._task is None:
                self._task = asyncio.get_running_loop().create_task(self._run(), name="saves the cluster image")

    async def close(self) -> None:
        """Makes the last copy, unless the disk hangs."""
        self._closing.set()
        if (task := self._task) is not None:
            await asyncio.wait((task,), timeout=LAST_COPY_S_MAX)
            task.cancel()
        self._files.close()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        wait_s = AFTER_S
        while self._changed:
            await self._wait(wait_s)
            began_s = loop.time()
            try:
                await self._save()
                wait_s = max(AFTER_S, SHARE * (loop.time() - began_s))
            except OSError as error:
                log.warning("the cluster image could not be saved", extra=fields(path=self._path, reason=error))
                self._changed, wait_s = not self._closing.is_set(), RETRY_S
        self._task = None

    async def _wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), seconds)

    async def _save(self) -> None:
        """Raises OSError."""
        image, self._changed = self._image, False
        lines: list[bytes] = []
        for line in lasting_lines_of(image):
            lines.append(line)
            if len(lines) % LINES_PER_TURN == 0:
                await asyncio.sleep(0)
        content = file_of(image.cluster_id, image.revision, self._wall_ms(), lines)
        await self._files.submit(partial(replace_file, self._fs, self._path, content))


def is_concerned(old: ClusterImage, new: ClusterImage) -> bool:
    """Whether what a copy is kept for has changed."""
    return (
        old.topics is not new.topics
        or old.overrides_by_resource is not new.overrides_by_resource
        or old.client_quotas is not new.client_quotas
        or old.acls is not new.acls
        or old.nodes is not new.nodes
        or old.cluster_id != new.cluster_id
        or old.feature_level != new.feature_level
        or old.finalized_features is not new.finalized_features
        or any(map(_is_placed_anew, new.partition_changes_since(old)))
    )


def _is_placed_anew(change: PartitionChange) -> bool:
    before, after = change.before, change.after
    if before is None or after is None:
        return True
    return (
        before.replicas != after.replicas
        or before.adding != after.adding
        or before.removing != after.removing
        or before.owner_epoch != after.owner_epoch
    )
