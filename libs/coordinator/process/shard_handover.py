"""Controlled shutdown of a coordinator: it announces that it stops, and serves for a bounded time until others own its shards."""

import asyncio
import logging
from typing import Any

from libs.cluster.image import ClusterImage
from libs.cluster.image_follower import ImageFollower
from libs.cluster.records import CONTROLLER
from libs.coordinator.shards.shard_set import ShardSet
from libs.runtime.registration import Registration
from libs.telemetry.logs import fields

log = logging.getLogger("coordinators")


def has_successors(image: ClusterImage, role: str, node_id: int) -> bool:
    """Whether another process of that role could own the shards."""
    return any(not member.stopping for member in image.members(role).values() if member.node_id != node_id)


async def hand_over_shards(
    shards: ShardSet[Any, Any, Any], registration: Registration, follower: ImageFollower, timeout_s: float
) -> None:
    """Waits until this coordinator owns no shard, or no other coordinator is there to own one; at most `timeout_s`.

    Returns at once without a controller in the image, while this process holds no lease, or if its image is of a lost branch. An
    outage of the metadata store takes all of `timeout_s`, for as long as the lease may live: the announcement is tried again and
    again.
    """
    role, node_id = registration.member.role, registration.member.node_id

    def can_hand_over() -> bool:
        return bool(shards.owned) and has_successors(follower.image, role, node_id)

    if not can_hand_over() or not follower.image.members(CONTROLLER) or not registration.registered or follower.store_went_back:
        return
    changed = asyncio.Event()
    unsubscribe = follower.subscribe(lambda _old, _new: changed.set())
    try:
        async with asyncio.timeout(timeout_s):
            await registration.update(stopping=True)
            while can_hand_over():
                changed.clear()
                await changed.wait()
    except TimeoutError:
        log.warning("stopping, though others could take the shards", extra=fields(shards=len(shards.owned)))
    finally:
        unsubscribe()
