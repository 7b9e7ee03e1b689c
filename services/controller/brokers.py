"""Keeps partition states and node records true to who is registered. See core/brokers.py for what is decided."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE, NodeRecord, PartitionState
from services.controller import writes
from services.controller.core.brokers import live_nodes, lost_directories, settle
from services.controller.fencing import Conflict, Deposed, Unsettled
from services.controller.term import Term
from services.controller.writes import Write

log = logging.getLogger(__name__)

AT_ONCE: Final = 4
"""Transactions in flight together: a node with 5,000 partitions needs 84 of them, each a sync of etcd's disk."""


class BrokerKeeper:
    """Runs after each change of membership, and at the start of a term. Idempotent: it compares, and writes what differs."""

    def __init__(self) -> None:
        self._reported: set[tuple[bytes, int]] = set()

    async def settle(self, term: Term) -> None:
        """Raises Conflict, Deposed and Unsettled: what was not written is found again by the next run."""
        while leftovers := writes.sweeping(term.image):
            await self._write(term, leftovers)
        image = term.image
        await self._write(term, writes.node_records(image, _changed_nodes(image)))
        changed = self._changed_partitions(image)
        if changed:
            leaderless = sum(1 for _, _, state in changed if state.leader < 0)
            log.info("settling partitions", extra={"fields": {"partitions": len(changed), "leaderless": leaderless}})
        await self._write(term, writes.partition_changes(image, changed))

    async def _write(self, term: Term, wanted: Sequence[Write]) -> None:
        newest = 0
        for start in range(0, len(wanted), AT_ONCE):
            outcomes = await asyncio.gather(*map(term.apply, wanted[start : start + AT_ONCE]), return_exceptions=True)
            for outcome in outcomes:
                if isinstance(outcome, Conflict | Deposed | Unsettled):
                    raise outcome
                if isinstance(outcome, BaseException):
                    raise outcome
                newest = max(newest, outcome)
        if newest:
            await term.reach(newest)

    def _changed_partitions(self, image: ClusterImage) -> list[tuple[bytes, int, PartitionState]]:
        live = live_nodes(image.members(STORAGE))
        changed = []
        for topic_id, topic in image.topics_by_id.items():
            for index, state in enumerate(image.partitions_of(topic_id)):
                if state is None:
                    log.error("partition has no state", extra={"fields": {"topic": topic.name, "partition": index}})
                    continue
                settled = settle(state, live)
                if settled is not state:
                    changed.append((topic_id, index, settled))
                self._report_lost(topic.name, topic_id, index, settled, lost_directories(state, live))
        return changed

    def _report_lost(self, topic: str, topic_id: bytes, index: int, state: PartitionState, nodes: tuple[int, ...]) -> None:
        if not nodes:
            self._reported.discard((topic_id, index))
        elif (topic_id, index) not in self._reported:
            self._reported.add((topic_id, index))
            found = {"topic": topic, "partition": index, "nodes": list(nodes), "leader": state.leader}
            log.error("log directory of an in-sync replica is gone", extra={"fields": found})


def _changed_nodes(image: ClusterImage) -> list[NodeRecord]:
    current = [NodeRecord(member.node_id, member.log_dirs, member.rack) for member in image.members(STORAGE).values()]
    return [record for record in current if image.nodes.get(record.node_id) != record]
