"""What a scheduler does with very many partitions at once."""

from typing import Any

from libs.commitlog.filesystem import OsFileSystem
from services.storage.offload import ThreadOffload
from services.storage.sync_scheduler import SyncScheduler


class DurableLog:
    def sync_targets(self) -> None:
        return None


class Durable:
    """A partition that is owed a round and needs none."""

    def __init__(self, sync: SyncScheduler) -> None:
        self.log = DurableLog()
        self.sync = sync


async def test_rounds_that_find_nothing_to_do_go_on_to_the_last_that_is_owed() -> None:
    events: Any = None
    scheduler = SyncScheduler("disk", OsFileSystem(), ThreadOffload("sync"), events, hang_s=10.0)
    partitions: list[Any] = [Durable(scheduler) for _ in range(50_000)]
    for partition in partitions:
        scheduler.owe(partition)
    scheduler.kick()
    await scheduler.drain()  # at once: nothing is left
    scheduler.close()
