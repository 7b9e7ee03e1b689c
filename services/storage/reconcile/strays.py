"""Partitions on the disks that the image does not ask of this node: deleted, or moved, while it was down."""

import asyncio
import logging
from collections.abc import Callable

from libs.telemetry.logs import fields
from services.storage.disks import Disk, Disks
from services.storage.hosted import Key
from services.storage.partitions import Partitions

log = logging.getLogger(__name__)


async def set_aside_strays(
    disks: Disks, partitions: Partitions, is_asked_for: Callable[[Key], bool], name_lock: Callable[[str], asyncio.Lock]
) -> None:
    for disk in disks.usable:
        for topic_name, index in list(disk.scanned.gone):
            found = partitions.image.topics.get(topic_name)
            key = (bytes.fromhex(found.topic_id), index) if found is not None else None
            if key is None or not is_asked_for(key) or disks.holding(key) is not None:
                del disk.scanned.gone[topic_name, index]
        for key, topic in disk.unopened():
            async with name_lock(f"{topic}-{key[1]}"):
                if not is_asked_for(key) and disk.holds(key):
                    await _set_aside(disk, key, topic)


async def _set_aside(disk: Disk, key: Key, topic: str) -> None:
    try:
        path = await disk.set_aside(key, topic)
    except OSError as error:
        log.error("stray partition cannot be renamed", extra=fields(topic=topic, partition=key[1], reason=error))
        return
    log.warning(
        "stray partition set aside, remove it if nobody misses it",
        extra=fields(topic=topic, partition=key[1], topic_id=key[0].hex(), path=path),
    )
