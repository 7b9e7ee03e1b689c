"""The wait until every member of the maximal ISR begins its log where the leader does, or later.

Whoever is elected is one of them, so a start that all of them have on disk never goes back.
"""

import asyncio

from services.storage.partition.partition import Partition


async def wait_for_followers(partition: Partition, start: int) -> None:
    """Waits for them. It also returns when this node leads the partition no longer."""
    replica = partition.replica
    while replica.leading and replica.least_start(partition.log_start_offset) < start:
        changed = asyncio.Event()
        replica.start_watchers.append(changed.set)
        try:
            await changed.wait()
        finally:
            replica.start_watchers.remove(changed.set)
