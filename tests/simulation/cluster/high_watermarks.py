"""The invariant of repairs: no replica cuts its log below any high watermark that was ever shown."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

from libs.commitlog.partition_log.log import Log
from tests.simulation.cluster.processes import StorageProcess

EVERY_S = 0.002


class ShownHighWatermarks:
    """The highest high watermark that a leader of each partition has had, and the cuts below it."""

    def __init__(self, storage: Sequence[StorageProcess]) -> None:
        self._storage = storage
        self.shown: dict[str, int] = {}
        self.cuts: list[str] = []

    @contextmanager
    def watched(self) -> Iterator[None]:
        truncate_to = Log.truncate_to

        def watched(log: Log, offset: int) -> int:
            self._look()
            name = log.directory.rpartition("/")[2]
            if offset < min(self.shown.get(name, 0), log.log_end_offset):
                self.cuts.append(f"{name} is cut from {log.log_end_offset} to {offset}, and {self.shown[name]} was shown")
            return truncate_to(log, offset)

        looking = asyncio.get_running_loop().create_task(self._keep_looking())
        try:
            with patch.object(Log, "truncate_to", watched):
                yield
        finally:
            looking.cancel()

    async def _keep_looking(self) -> None:
        while True:
            self._look()
            await asyncio.sleep(EVERY_S)

    def _look(self) -> None:
        for node in self._storage:
            if node.running and node.what is not None:
                for partition in node.what.partitions.by_key.values():
                    if partition.leading:
                        name = str(partition)
                        self.shown[name] = max(self.shown.get(name, 0), partition.high_watermark)
