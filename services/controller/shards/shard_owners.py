"""The assignment of internal-topic shards to live coordinators during a term.
`services/controller/core/shards/shard_ownership.py` decides."""

import asyncio
import contextlib
import logging
from collections import Counter

from libs.cluster.image import ClusterImage
from libs.cluster.partition_table import TopicPartitions
from libs.cluster.records import PartitionState
from libs.cluster.shard_owners import OWNED_BY, Owner
from libs.telemetry.logs import fields
from services.controller.core.shards.shard_ownership import Calm, assigned, candidates
from services.controller.term.fenced_writer import OutcomeUnknown
from services.controller.term.term import Changed, Term

log = logging.getLogger("controller")

RETRY_S = 0.5


class ShardOwners:
    """The shard assignment of one controller. `run` lasts for a term. Call `follow` with each change of the image."""

    def __init__(self, pipeline: asyncio.Lock) -> None:
        self._pipeline = pipeline
        self._changed = asyncio.Event()
        self._calm: dict[str, Calm] = {}

    def follow(self, old: ClusterImage, new: ClusterImage) -> None:
        if any(_differ(old, new, topic) for topic in OWNED_BY):
            self._changed.set()

    async def run(self, term: Term) -> None:
        """Raises Deposed."""
        self._calm = {topic: Calm() for topic in OWNED_BY}
        while True:
            self._changed.clear()
            try:
                wait_s = await self._assign(term)
            except OutcomeUnknown as error:
                log.warning("shards not assigned", extra=fields(reason=error))
                wait_s = RETRY_S
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()

    async def _assign(self, term: Term) -> float | None:
        """Assigns shards, and returns the wait until the next check if nothing changes. Raises Deposed and OutcomeUnknown."""
        now_s, image = asyncio.get_running_loop().time(), term.image
        waits_s = {
            topic: calm.remaining_s(candidates(image.members(OWNED_BY[topic])), now_s) for topic, calm in self._calm.items()
        }
        calm_topics = {topic for topic, wait_s in waits_s.items() if wait_s <= 0}
        if _decided(image, calm_topics):
            async with self._pipeline:
                changed, _ = await term.carry_out(lambda: _decided(term.image, calm_topics))
            _report(term.image, changed)
        return min((wait_s for wait_s in waits_s.values() if wait_s > 0), default=None)


def shards(image: ClusterImage) -> dict[str, dict[str, int]]:
    """The number of shards by topic and owner, for the admin port. "" means no owner."""
    by_topic = {}
    for topic in OWNED_BY:
        if topic in image.topics:
            states = image.partitions_of(bytes.fromhex(image.topics[topic].topic_id))
            by_topic[topic] = dict(Counter(state.owner for state in states if state is not None))
    return by_topic


def unowned(image: ClusterImage) -> int:
    """Shards that no live coordinator owns. One that is about to stop counts as live."""
    living = {topic: {str(Owner(n, m.incarnation)) for n, m in image.members(role).items()} for topic, role in OWNED_BY.items()}
    return sum(count for topic, owned in shards(image).items() for owner, count in owned.items() if owner not in living[topic])


def _differ(old: ClusterImage, new: ClusterImage, topic: str) -> bool:
    role = OWNED_BY[topic]
    return old.members(role) is not new.members(role) or _partitions(old, topic) is not _partitions(new, topic)


def _partitions(image: ClusterImage, name: str) -> TopicPartitions | None:
    topic = image.topics.get(name)
    return image.partition_table.get(bytes.fromhex(topic.topic_id)) if topic is not None else None


def _decided(image: ClusterImage, calm_topics: set[str]) -> Changed:
    changed: Changed = []
    for name, role in OWNED_BY.items():
        if (topic := image.topics.get(name)) is not None:
            topic_id = bytes.fromhex(topic.topic_id)
            moved = assigned(image.partitions_of(topic_id), image.members(role), even=name in calm_topics)
            changed += [(topic_id, index, state) for index, state in moved]
    return changed


def _report(image: ClusterImage, changed: Changed) -> None:
    by_topic: dict[bytes, list[PartitionState]] = {}
    for topic_id, _, state in changed:
        by_topic.setdefault(topic_id, []).append(state)
    for topic_id, states in by_topic.items():
        topic = image.topics_by_id.get(topic_id)
        given = dict(Counter(state.owner for state in states))
        log.info("shards assigned", extra=fields(topic=topic.name if topic is not None else topic_id.hex(), owners=given))
