"""Leaving in an orderly way: the node says that it is about to stop, and serves until others have taken over what they can."""

import asyncio
import logging

from libs.cluster.follower import ImageFollower
from libs.cluster.records import CONTROLLER
from libs.telemetry.logs import fields
from services.storage.core.departure import still_counted_on
from services.storage.presence import Presence

log = logging.getLogger(__name__)


async def hand_over(node_id: int, presence: Presence, follower: ImageFollower, patience_s: float) -> None:
    """Returns when nobody counts on this node whom another could serve. Without a controller, or without a metadata store, nobody
    takes over, so it is not waited for longer than `patience_s`."""
    if not follower.image.members(CONTROLLER):
        return
    try:
        async with asyncio.timeout(patience_s):
            if not await presence.tell_stopping():
                return
            while next(still_counted_on(follower.image, node_id), None) is not None:
                await _next_image(follower)
    except TimeoutError:
        left = sum(1 for _ in still_counted_on(follower.image, node_id))
        log.warning("stopping, though others could serve what this node does", extra=fields(partitions=left))


async def _next_image(follower: ImageFollower) -> None:
    changed = asyncio.Event()
    unsubscribe = follower.subscribe(lambda _old, _new: changed.set())
    try:
        await changed.wait()
    finally:
        unsubscribe()
