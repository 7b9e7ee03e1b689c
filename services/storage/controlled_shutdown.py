"""Controlled shutdown: the node announces that it stops, and serves until other nodes have taken over what they can."""

import asyncio
import logging

from libs.cluster.image_follower import ImageFollower
from libs.cluster.records import CONTROLLER
from libs.telemetry.logs import fields
from services.storage.core.departure import partitions_to_hand_over
from services.storage.registration import StorageRegistration

log = logging.getLogger("elections")


async def hand_over(node_id: int, registration: StorageRegistration, follower: ImageFollower, timeout_s: float) -> None:
    """Returns when no partition needs this node that another node could serve, after `timeout_s` at the latest.

    Without a controller, or without a metadata store, nobody takes over; nor from a node whose image is of a lost branch.
    """
    if follower.store_went_back or not follower.image.members(CONTROLLER):
        return
    try:
        async with asyncio.timeout(timeout_s):
            if not await registration.announce_stop():
                return
            while next(partitions_to_hand_over(follower.image, node_id), None) is not None:
                await _next_image(follower)
    except TimeoutError:
        left = sum(1 for _ in partitions_to_hand_over(follower.image, node_id))
        log.warning("stopping before other nodes have taken over", extra=fields(partitions=left))


async def _next_image(follower: ImageFollower) -> None:
    changed = asyncio.Event()
    unsubscribe = follower.subscribe(lambda _old, _new: changed.set())
    try:
        await changed.wait()
    finally:
        unsubscribe()
