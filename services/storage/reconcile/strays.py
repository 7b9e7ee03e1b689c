"""Strays: partitions on the disks that the image does not ask of this node, since they were deleted or moved while it was
down. Or they are newer than the metadata, which were restored from a backup. Nobody can tell, so nothing is deleted."""

import asyncio
import logging
from collections.abc import Callable

from libs.cluster.image import ClusterImage
from libs.telemetry.logs import fields
from services.storage.disks.disks import Disk, Disks
from services.storage.partition.partition import Key
from services.storage.partition.partition_table import PartitionTable

log = logging.getLogger("log")

WAY_OUT = "to have it back: docs/operate/restoring-metadata.md, Strays"


async def set_aside_strays(
    disks: Disks, partitions: PartitionTable, is_wanted: Callable[[Key], bool], name_lock: Callable[[str], asyncio.Lock]
) -> None:
    for disk in disks.usable:
        for topic_name, index in list(disk.scanned.lost):
            topic_record = partitions.image.topics.get(topic_name)
            key = (bytes.fromhex(topic_record.topic_id), index) if topic_record is not None else None
            if key is None or not disk.has_lost(key, topic_name) or not is_wanted(key) or disks.holding(key) is not None:
                del disk.scanned.lost[topic_name, index]
        for key, topic in disk.unopened():
            async with name_lock(f"{topic}-{key[1]}"):
                if not is_wanted(key) and disk.holds(key):
                    await _set_aside(disk, key, topic, _reason(partitions.image, key, topic))


def _reason(image: ClusterImage, key: Key, topic: str) -> str:
    """What the metadata say of a stray."""
    known = image.topics_by_id.get(key[0])
    if known is not None:
        return "the partition is unknown" if key[1] >= known.partitions else "its replicas are on other nodes"
    return "another topic has the name" if topic in image.topics else "the topic is unknown"


async def _set_aside(disk: Disk, key: Key, topic: str, reason: str) -> None:
    try:
        path = await disk.set_aside(key, topic)
    except OSError as error:
        log.error("stray partition cannot be renamed", extra=fields(topic=topic, partition=key[1], reason=error))
        return
    log.warning(
        "stray partition set aside, remove it if nobody misses it",
        extra=fields(topic=topic, partition=key[1], topic_id=key[0].hex(), path=path, reason=reason, way_out=WAY_OUT),
    )
