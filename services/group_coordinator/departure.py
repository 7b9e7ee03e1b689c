"""Leaving in an orderly way: the coordinator says that it is about to stop, and serves until others have its shards."""

import asyncio
import logging
from dataclasses import replace

from libs.cluster.follower import ImageFollower
from libs.cluster.membership import Membership
from libs.cluster.records import CONTROLLER, Member
from libs.telemetry.logs import fields
from services.group_coordinator.service import GroupCoordinator

log = logging.getLogger(__name__)


async def hand_over(
    coordinator: GroupCoordinator, membership: Membership, member: Member, follower: ImageFollower, patience_s: float
) -> None:
    """Returns when it owns nothing that another could. Without a controller, or a metadata store, nobody takes over: it is waited
    for no longer than `patience_s`."""
    takes_over = coordinator.shards.owned and coordinator.others and coordinator.image.members(CONTROLLER)
    if not takes_over or not membership.registered:
        return
    changed = asyncio.Event()
    unsubscribe = follower.subscribe(lambda _old, _new: changed.set())
    try:
        async with asyncio.timeout(patience_s):
            await membership.update(replace(member, stopping=True))
            while coordinator.shards.owned and coordinator.others:
                changed.clear()
                await changed.wait()
    except TimeoutError:
        log.warning("stopping, though others could take the shards", extra=fields(shards=len(coordinator.shards.owned)))
    finally:
        unsubscribe()
