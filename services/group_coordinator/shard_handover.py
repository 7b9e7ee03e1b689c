"""Controlled shutdown of a coordinator: it announces that it stops, and serves for a bounded time until others own its shards."""

import asyncio
import logging

from libs.cluster.image_follower import ImageFollower
from libs.cluster.records import CONTROLLER
from libs.runtime.registration import Registration
from libs.telemetry.logs import fields
from services.group_coordinator.coordinator import GroupCoordinator

log = logging.getLogger(__name__)


async def hand_over_shards(
    coordinator: GroupCoordinator, registration: Registration, follower: ImageFollower, timeout_s: float
) -> None:
    """Waits until this coordinator owns no shard, or no other coordinator is there to own one; at most `timeout_s`.

    Returns at once without a controller in the image, while this process holds no lease, or if its image is of a lost branch. An
    outage of the metadata store takes all of `timeout_s`, for as long as the lease may live: the announcement is tried again and
    again.
    """
    can_hand_over = coordinator.shards.owned and coordinator.has_successors and coordinator.image.members(CONTROLLER)
    if not can_hand_over or not registration.registered or follower.store_went_back:
        return
    changed = asyncio.Event()
    unsubscribe = follower.subscribe(lambda _old, _new: changed.set())
    try:
        async with asyncio.timeout(timeout_s):
            await registration.update(stopping=True)
            while coordinator.shards.owned and coordinator.has_successors:
                changed.clear()
                await changed.wait()
    except TimeoutError:
        log.warning("stopping, though others could take the shards", extra=fields(shards=len(coordinator.shards.owned)))
    finally:
        unsubscribe()
