"""The idempotent producers that the logs of a node remember: expiry of silent ones, and the bound over all logs.

A client may make ids up, some thousands a second. A log bounds its own (`producer.ids.max`), and the node bounds their sum, since
each takes memory. Turns of the event loop stay short: each looks at a part.

`by_key` changes between two turns. A partition that has left it may be cut by a thread, which replaces its producers.
"""

import asyncio
import heapq
from collections.abc import Mapping

from services.storage.partition.partition import Key, Partition

PARTITIONS_PER_TURN = 20
"""After so many partitions, requests get their turn."""


async def expire(by_key: Mapping[Key, Partition], now_ms: int, expiration_ms: int) -> None:
    """Forgets producers that have been silent for so long."""
    for number, partition in enumerate(list(by_key.values())):
        if number % PARTITIONS_PER_TURN == 0:
            await asyncio.sleep(0)
        while by_key.get(partition.key) is partition:
            partition.log.producers.expire(now_ms, expiration_ms)
            if not partition.log.producers.entries.is_expiring:
                break
            await asyncio.sleep(0)


async def bound(by_key: Mapping[Key, Partition], ids_max: int) -> None:
    """Forgets producers while the logs remember more than `ids_max`, those of the largest log first."""
    partitions = list(by_key.values())
    sizes = [(-partition.log.producers.entries.count, number) for number, partition in enumerate(partitions)]
    excess = -sum(size for size, _ in sizes) - ids_max
    if excess <= 0:
        return
    heapq.heapify(sizes)
    while excess > 0 and sizes:
        size, number = heapq.heappop(sizes)
        partition = partitions[number]
        if by_key.get(partition.key) is not partition:  # the others do not give way for it
            excess += size
            continue
        evicted = partition.log.producers.evict(max(0, -size - excess))
        excess -= evicted
        if evicted:
            heapq.heappush(sizes, (size + evicted, number))
        await asyncio.sleep(0)
