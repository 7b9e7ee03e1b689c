"""Brings partition states and node records to what the registered members ask for; ordinary elections happen here. The decisions
are in `services/controller/core/partitions/partition_reconciler.py`."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping

from libs.cluster.image import ClusterImage
from libs.cluster.lost_directories import way_out
from libs.cluster.records import STORAGE, NodeRecord, PartitionState
from libs.telemetry.durations import Durations
from services.controller.core.directories.lost_directories import NewDirectories, nodes_with_new_directories, with_new_directories
from services.controller.core.model.cuts import NO_CUTS, Cuts, no_cuts
from services.controller.core.model.topic_election_configs import TopicElectionConfigs
from services.controller.core.partitions.partition_reconciler import (
    SteadyPartitions,
    live_nodes,
    lost_directories,
    reconcile,
    shrinks_to,
    with_lax,
)
from services.controller.elections.election_traces import ElectionTraces
from services.controller.term import state_log, writes
from services.controller.term.term import Term

log = logging.getLogger("elections")

Key = tuple[bytes, int]
"""Topic id, partition."""

Change = tuple[bytes, int, PartitionState]
"""A partition's new state."""

DEFERRAL_S_MAX = 1.0


class PartitionReconciler:
    """Brings partitions to the states that the core decides. Idempotent: it writes what differs.

    It runs after each change of membership, partitions or cuts, and at the start of a term. If nodes, configs or cuts changed, it
    checks all partitions. Otherwise it checks those that changed since its last complete run.
    """

    def __init__(
        self,
        traces: ElectionTraces,
        suspected: Callable[[], Collection[int]] = frozenset,
        cuts: Callable[[], Cuts] = no_cuts,
    ) -> None:
        """`suspected` names registered nodes that may be dead, `cuts` those that some processes cannot reach.

        An ISR shrinks to suspected nodes alone only if they stay suspected for `DEFERRAL_S_MAX`.
        """
        self._traces = traces
        self._suspected = suspected
        self._cuts = cuts
        self._reconciled_cuts = NO_CUTS
        self._deferred: dict[Key, float] = {}
        self.elections = Durations()
        """The times of elections, from the decision until the image shows the leader."""
        self._reported: dict[Key, str] = {}
        """The advice that was logged for each partition whose directory is lost."""
        self._leaderless: dict[tuple[bytes, int], None] = {}
        self._reconciled = ClusterImage()
        self._rules = TopicElectionConfigs(self._reconciled)

    @property
    def has_deferred(self) -> bool:
        """Whether some ISR changes are deferred until their nodes are known to live or to be dead. Reconcile again
        in a moment."""
        return bool(self._deferred)

    def leaderless(self) -> list[tuple[bytes, int]]:
        """Partitions that the last reconciliation left without a leader. Some may be deleted by now."""
        return list(self._leaderless)

    async def reconcile(self, term: Term) -> None:
        """Raises Conflict, Deposed and OutcomeUnknown. The next run finds what was not written."""
        while leftovers := writes.sweeping(term.image):
            await term.commit_all(leftovers)
        image = term.image
        await term.commit_all(writes.node_records(image, _changed_nodes(image)))
        image, loop = term.image, asyncio.get_running_loop()
        begun = loop.time()
        cuts = self._cuts()
        changed = self._changed_partitions(image, cuts)
        if changed:
            leaderless = sum(1 for _, _, state in changed if state.leader < 0)
            log.info("reconciling partitions", extra={"fields": {"partitions": len(changed), "leaderless": leaderless}})
            self._report_new_directories(image, changed)
            state_log.decided(image, changed, live=live_nodes(image.members(STORAGE), cuts))
        decided = loop.time()
        state_log.written(len(changed), await term.commit_all(writes.partition_changes(image, changed)))
        written = loop.time()
        elected = sum(1 for change in changed if change[2].leader >= 0 and change[2].leader_epoch != _leader_epoch(image, change))
        self.elections.observe(written - decided, elected)
        if elected:
            self._traces.elected(image, changed, begun, decided, written)
        self._reconciled, self._reconciled_cuts = image, cuts

    def _changed_partitions(self, image: ClusterImage, cuts: Cuts) -> list[Change]:
        live, suspected = live_nodes(image.members(STORAGE), cuts), self._suspected()
        is_steady, new_directories = SteadyPartitions(live), NewDirectories(image)
        deferred, self._deferred = self._deferred, {}
        self._rules = self._rules.of(image)
        changed = []
        for topic_id, index, state in self._candidates(image, cuts, deferred):
            if state is None:
                topic = image.topics_by_id[topic_id].name
                log.error("partition has no state", extra={"fields": {"topic": topic, "partition": index}})
                continue
            synced = self._rules.synced(topic_id)
            reconciled = state
            if not is_steady(state):
                reconciled = with_new_directories(reconcile(state, live, synced=synced), state, live, new_directories)
            reconciled = with_lax(reconciled, state, synced=synced)
            if (
                reconciled is not state
                and shrinks_to(state, reconciled.isr, suspected)
                and self._defer((topic_id, index), deferred)
            ):
                details = {"topic": image.topics_by_id[topic_id].name, "partition": index}
                log.debug("ISR change deferred: the nodes that would stay may be dead", extra={"fields": details})
                continue
            if reconciled.leader < 0:
                self._leaderless[topic_id, index] = None
            else:
                self._leaderless.pop((topic_id, index), None)
            if reconciled is not state:
                changed.append((topic_id, index, reconciled))
            self._report_lost(image, topic_id, index, reconciled, lost_directories(reconciled, live))
        # Elections are written first: producers and consumers wait for a leader, and nobody waits for a smaller ISR.
        return sorted(changed, key=lambda change: change[2].leader_epoch == _leader_epoch(image, change))

    def _defer(self, key: Key, deferred: Mapping[Key, float]) -> bool:
        now = asyncio.get_running_loop().time()
        since = self._deferred[key] = deferred.get(key, now)
        if now - since < DEFERRAL_S_MAX:
            return True
        del self._deferred[key]
        return False

    def _candidates(
        self, image: ClusterImage, cuts: Cuts, deferred: Collection[Key]
    ) -> Iterator[tuple[bytes, int, PartitionState | None]]:
        before = self._reconciled
        if (
            image.members(STORAGE) is before.members(STORAGE)
            and image.overrides_by_resource is before.overrides_by_resource
            and cuts == self._reconciled_cuts
        ):
            for change in image.partition_changes_since(before):
                topic = image.topics_by_id.get(change.topic_id)
                if topic is not None and change.index < topic.partitions:
                    yield change.topic_id, change.index, change.after
            for topic_id, index in deferred:
                if topic_id in image.topics_by_id:
                    yield topic_id, index, image.partition(topic_id, index)
            return
        self._leaderless.clear()
        for topic_id in image.topics_by_id:
            for index, state in enumerate(image.partitions_of(topic_id)):
                yield topic_id, index, state

    def _report_new_directories(self, image: ClusterImage, changed: list[Change]) -> None:
        befores = ((image.partition(topic_id, index), after) for topic_id, index, after in changed)
        nodes = Counter(n for before, after in befores if before is not None for n in nodes_with_new_directories(before, after))
        for node_id, partitions in sorted(nodes.items()):
            details = {"node": node_id, "partitions": partitions}
            log.warning("replicas lost their log directory: they are copied to another one", extra={"fields": details})

    def _report_lost(
        self, image: ClusterImage, topic_id: bytes, index: int, state: PartitionState, nodes: tuple[int, ...]
    ) -> None:
        if not nodes:
            self._reported.pop((topic_id, index), None)
            return
        advice = way_out(state, nodes, image.members(STORAGE))
        if self._reported.get((topic_id, index)) != advice:
            self._reported[topic_id, index] = advice
            topic = image.topics_by_id[topic_id].name
            details = {"topic": topic, "partition": index, "nodes": list(nodes), "leader": state.leader, "way_out": advice}
            log.error(
                "the log directory of a last in-sync replica is gone: the partition waits for it", extra={"fields": details}
            )


def _leader_epoch(image: ClusterImage, change: Change) -> int:
    before = image.partition(change[0], change[1])
    return before.leader_epoch if before is not None else -1


def _changed_nodes(image: ClusterImage) -> list[NodeRecord]:
    current = [NodeRecord(member.node_id, member.log_dirs, member.rack) for member in image.members(STORAGE).values()]
    return [record for record in current if image.nodes.get(record.node_id) != record]
