"""Keeps partition states and node records true to who is registered. See core/brokers.py for what is decided."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping

from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE, NodeRecord, PartitionState
from libs.telemetry.durations import Durations
from services.controller import writes
from services.controller.core.brokers import AtRest, live_nodes, lost_directories, marked, settle, shrinks_to
from services.controller.core.lost_directories import NewPlaces, given_new_places, with_new_places
from services.controller.core.topic_rules import TopicRules
from services.controller.term import Term

log = logging.getLogger(__name__)

Key = tuple[bytes, int]
"""Topic id, partition."""

Change = tuple[bytes, int, PartitionState]
"""A partition's new state."""

HELD_S = 1.0
WAY_OUT = "bring the directory back, or accept the loss: kafka-leader-election --election-type unclean"


class BrokerKeeper:
    """Runs after each change of membership or partitions, and at the start of a term. Idempotent: it writes what differs.

    Looks at all partitions when nodes or configs changed, else at those that changed since it last found all in order.
    """

    def __init__(self, doubted: Callable[[], Collection[int]] = frozenset) -> None:
        """`doubted`: registered nodes that may have ended. An ISR shrinks to them alone only if nobody knows for `HELD_S`."""
        self._doubted = doubted
        self._held: dict[Key, float] = {}
        self.elections = Durations()
        """How long it took until leaders that were decided on were leaders for everybody who follows the image."""
        self._reported: set[tuple[bytes, int]] = set()
        self._leaderless: dict[tuple[bytes, int], None] = {}
        self._settled = ClusterImage()
        self._rules = TopicRules(self._settled)

    @property
    def holds(self) -> bool:
        """There are partitions that wait until somebody is known to live, or to be dead: settle again in a moment."""
        return bool(self._held)

    def leaderless(self) -> list[tuple[bytes, int]]:
        """Partitions that the last settling left without a leader; some may be deleted by now."""
        return list(self._leaderless)

    async def settle(self, term: Term) -> None:
        """Raises Conflict, Deposed and Unsettled: what was not written is found again by the next run."""
        while leftovers := writes.sweeping(term.image):
            await term.commit_all(leftovers)
        image = term.image
        await term.commit_all(writes.node_records(image, _changed_nodes(image)))
        image = term.image
        changed = self._changed_partitions(image)
        if changed:
            leaderless = sum(1 for _, _, state in changed if state.leader < 0)
            log.info("settling partitions", extra={"fields": {"partitions": len(changed), "leaderless": leaderless}})
            self._report_made_anew(image, changed)
        begun = asyncio.get_running_loop().time()
        await term.commit_all(writes.partition_changes(image, changed))
        elected = sum(1 for change in changed if change[2].leader >= 0 and change[2].leader_epoch != _leader_epoch(image, change))
        self.elections.observe(asyncio.get_running_loop().time() - begun, elected)
        self._settled = image

    def _changed_partitions(self, image: ClusterImage) -> list[Change]:
        live, doubted = live_nodes(image.members(STORAGE)), self._doubted()
        at_rest, places = AtRest(live), NewPlaces(image)
        held, self._held = self._held, {}
        self._rules = self._rules.of(image)
        changed = []
        for topic_id, index, state in self._to_look_at(image, held):
            if state is None:
                topic = image.topics_by_id[topic_id].name
                log.error("partition has no state", extra={"fields": {"topic": topic, "partition": index}})
                continue
            synced = self._rules.synced(topic_id)
            settled = state
            if not at_rest(state):
                settled = given_new_places(settle(state, live, synced=synced), state, live, places)
            settled = marked(settled, state, synced=synced)
            if settled is not state and shrinks_to(state, settled.isr, doubted) and self._may_hold((topic_id, index), held):
                continue
            if settled.leader < 0:
                self._leaderless[topic_id, index] = None
            else:
                self._leaderless.pop((topic_id, index), None)
            if settled is not state:
                changed.append((topic_id, index, settled))
            self._report_lost(image, topic_id, index, settled, lost_directories(settled, live))
        # Elections first: who waits for a leader waits for nothing else, and an ISR that only shrinks can wait for them.
        return sorted(changed, key=lambda change: change[2].leader_epoch == _leader_epoch(image, change))

    def _may_hold(self, key: Key, held: Mapping[Key, float]) -> bool:
        now = asyncio.get_running_loop().time()
        since = self._held[key] = held.get(key, now)
        if now - since < HELD_S:
            return True
        del self._held[key]
        return False

    def _to_look_at(self, image: ClusterImage, held: Collection[Key]) -> Iterator[tuple[bytes, int, PartitionState | None]]:
        before = self._settled
        if image.members(STORAGE) is before.members(STORAGE) and image.overrides_by_resource is before.overrides_by_resource:
            for change in image.partition_changes_since(before):
                topic = image.topics_by_id.get(change.topic_id)
                if topic is not None and change.index < topic.partitions:
                    yield change.topic_id, change.index, change.after
            for topic_id, index in held:
                if topic_id in image.topics_by_id:
                    yield topic_id, index, image.partition(topic_id, index)
            return
        self._leaderless.clear()
        for topic_id in image.topics_by_id:
            for index, state in enumerate(image.partitions_of(topic_id)):
                yield topic_id, index, state

    def _report_made_anew(self, image: ClusterImage, changed: list[Change]) -> None:
        befores = ((image.partition(topic_id, index), after) for topic_id, index, after in changed)
        nodes = Counter(n for before, after in befores if before is not None for n in with_new_places(before, after))
        for node_id, partitions in sorted(nodes.items()):
            found = {"node": node_id, "partitions": partitions}
            log.warning("replicas lost their log directory: they are copied anew in another", extra={"fields": found})

    def _report_lost(
        self, image: ClusterImage, topic_id: bytes, index: int, state: PartitionState, nodes: tuple[int, ...]
    ) -> None:
        if not nodes:
            self._reported.discard((topic_id, index))
        elif (topic_id, index) not in self._reported:
            self._reported.add((topic_id, index))
            topic = image.topics_by_id[topic_id].name
            found = {"topic": topic, "partition": index, "nodes": list(nodes), "leader": state.leader, "way_out": WAY_OUT}
            log.error("log directory of a last in-sync replica is gone: it waits for it", extra={"fields": found})


def _leader_epoch(image: ClusterImage, change: Change) -> int:
    before = image.partition(change[0], change[1])
    return before.leader_epoch if before is not None else -1


def _changed_nodes(image: ClusterImage) -> list[NodeRecord]:
    current = [NodeRecord(member.node_id, member.log_dirs, member.rack) for member in image.members(STORAGE).values()]
    return [record for record in current if image.nodes.get(record.node_id) != record]
