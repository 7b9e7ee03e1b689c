"""The idempotent producers that the logs of a node remember: expiry of silent ones, and the bound over all logs.

A client may make ids up, some thousands a second. A log bounds its own (`producer.ids.max`), and the node bounds their sum, since
each takes memory. Turns of the event loop stay short: each looks at a part.
"""

import asyncio
import heapq
from collections.abc import Collection

from services.storage.partition.partition import Partition

PARTITIONS_PER_TURN = 20
"""After so many partitions, requests get their turn."""


async def expire(partitions: Collection[Partition], now_ms: int, expiration_ms: int) -> None:
    """Forgets producers that have been silent for so long."""
    for number, partition in enumerate(partitions):
        if number % PARTITIONS_PER_TURN == 0:
            await asyncio.sleep(0)
        partition.log.producers.expire(now_ms, expiration_ms)
        while partition.log.producers.entries.is_expiring:
            await asyncio.sleep(0)
            partition.log.producers.expire(now_ms, expiration_ms)


async def bound(partitions: Collection[Partition], ids_max: int) -> None:
    """Forgets producers while the logs remember more than `ids_max`, those of the largest log first."""
    sizes = [(-partition.log.producers.entries.count, number) for number, partition in enumerate(partitions)]
    excess = -sum(size for size, _ in sizes) - ids_max
    if excess <= 0:
        return
    by_number = list(partitions)
    heapq.heapify(sizes)
    while excess > 0 and sizes:
        size, number = heapq.heappop(sizes)
        evicted = by_number[number].log.producers.evict(max(0, -size - excess))
        excess -= evicted
        if evicted:
            heapq.heappush(sizes, (size + evicted, number))
        await asyncio.sleep(0)
