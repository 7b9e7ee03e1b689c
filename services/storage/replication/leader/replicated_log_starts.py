"""Waits until every member of the maximal ISR begins its log where the leader does, or later.

Whoever is elected is one of them, so a start that all of them have on disk never goes back.
"""

import asyncio

from services.storage.hosted import Hosted


async def held_by_all(hosted: Hosted, start: int) -> None:
    """Also returns when this node leads the partition no longer."""
    replica = hosted.replica
    while replica.leading and replica.least_start(hosted.log_start_offset) < start:
        changed = asyncio.Event()
        replica.start_watchers.append(changed.set)
        try:
            await changed.wait()
        finally:
            replica.start_watchers.remove(changed.set)
