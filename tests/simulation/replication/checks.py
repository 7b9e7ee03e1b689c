"""The invariants of one replicated partition, by the numbers of docs/simulation.md."""

from collections.abc import Sequence

from libs.cluster.records import InSync, PartitionState
from services.storage.partition.partition import Partition
from tests.simulation.replication.controller import Controller
from tests.simulation.replication.member import StorageMember
from tests.simulation.replication.simulator import Simulator

HEADER_SIZE = 61


class Checks:
    """`visible` is what any leader ever showed to readers: batch by batch, as it then was. It is the truth from then on."""

    def __init__(self, simulator: Simulator, controller: Controller, nodes: Sequence[StorageMember]) -> None:
        self._simulator, self._controller, self._nodes = simulator, controller, nodes
        self.visible: list[bytes] = []
        self.acknowledged: dict[int, bytes] = {}
        self.excused = False
        """What was in page caches alone is lost with their power: nobody promised to keep it."""
        self._led: dict[int, InSync] = {}
        self._heights: dict[InSync, tuple[int, int]] = {}
        self._lost_power: set[InSync] = set()

    # -- events -----------------------------------------------------------------------------------------------------------

    def high_watermark(self, node: StorageMember, partition: Partition) -> None:
        """1, 3, 4: it rose."""
        high, batches = partition.high_watermark, node.log.batches
        if high > len(batches):
            self._simulator.violation(f"3: node {node.node_id}: high watermark {high}, end {len(batches)}")
            return
        if self.excused:
            return
        known = len(self.visible)
        if partition.leading:
            if partition.replica.in_sync < partition.replica.min_in_sync:
                self._simulator.violation(f"4: node {node.node_id} commits {high} with {partition.replica.in_sync} in sync")
            for offset in range(known, high):
                self.visible.append(batches[offset])
            if high > known:
                self._simulator.log_event("  high watermark %d of node %d, epoch %d", high, node.node_id, partition.leader_epoch)
                if self._controller.state.leader_epoch == partition.leader_epoch:
                    self._held_by_all(known, high)
        elif high > known:
            self._simulator.violation(f"3: node {node.node_id} follows with high watermark {high}, {known} are committed")
            return
        if batches[:high] != self.visible[:high]:
            self._simulator.violation(f"1: node {node.node_id} shows other batches below {high} than were shown before")

    def written(self, state: PartitionState) -> None:
        """4: who is in the ISR has all that is committed."""
        if not self._controller.synced and all(member in self._lost_power for member in state.isr):
            self._excuse()
        self._held_by_all(0, len(self.visible))
        self._counted_by_its_leader(state)

    def _counted_by_its_leader(self, state: PartitionState) -> None:
        """4: the leader of this epoch counts each member of the ISR, also before it hears that the controller took the member."""
        for node in self._nodes:
            partition = node.partition
            if partition is None or not partition.leading or partition.leader_epoch != state.leader_epoch:
                continue
            counted = partition.replica.isr.maximal()
            if any(member.incarnation not in counted.get(member.node_id, ()) for member in state.isr):
                members = [tuple(member) for member in state.isr]
                self._simulator.violation(f"4: node {node.node_id} counts {counted}, and the ISR is {members}")

    def _held_by_all(self, start: int, end: int) -> None:
        state = self._controller.state
        if self.excused:
            return
        for member in state.isr:
            other = self._nodes[member.node_id - 1]
            if not self._controller.synced and (other.in_sync != member or other.life is None):
                continue
            held = other.log.batches[: other.log.durable_offset] if self._controller.synced else other.log.batches
            if held[start:end] != self.visible[start:end]:
                where = f"epoch {state.leader_epoch}.{state.partition_epoch}"
                what = f"{end} are committed, and node {member.node_id} of the ISR holds {len(held)} or others"
                self._simulator.violation(f"4: {where}: {what}")

    def power_cut(self, node: StorageMember) -> None:
        """Call it before. Of what is not synced, some in-sync replica must live on with what it wrote."""
        self._lost_power.add(node.in_sync)
        isr = self._controller.state.isr
        lives = {other.in_sync for other in self._nodes if other.life is not None and other is not node}
        if not self._controller.synced and any(m.node_id == node.node_id for m in isr) and not lives.intersection(isr):
            self._excuse()

    def _excuse(self) -> None:
        if not self.excused:
            self._simulator.log_event("  excused: it was in page caches alone")
        self.excused = True

    def answered(self, node: StorageMember, offset: int, value: bytes) -> None:
        """4: acks=all was answered with success."""
        if self.excused:
            return
        assert node.partition is not None
        self.high_watermark(node, node.partition)
        if offset in self.acknowledged:
            self._simulator.violation(f"4: offset {offset} is acknowledged twice")
        self.acknowledged[offset] = value
        if offset >= len(self.visible) or self.visible[offset][HEADER_SIZE:] != value:
            self._simulator.violation(f"4: offset {offset} is acknowledged, {len(self.visible)} are committed")

    # -- from time to time --------------------------------------------------------------------------------------------------

    def look(self) -> None:
        state = self._controller.state
        self._counted_by_its_leader(state)
        for node in self._nodes:
            partition = node.partition
            if partition is None:
                continue
            high, epoch = partition.high_watermark, partition.leader_epoch
            before = self._heights.get(node.in_sync, (-1, 0))
            if high > partition.log_end_offset or (before[0] == epoch and high < before[1] and not self.excused):
                end = partition.log_end_offset
                self._simulator.violation(f"3: node {node.node_id}: high watermark {before[1]}, then {high}, end {end}")
            self._heights[node.in_sync] = epoch, high
            if partition.replica.durable > node.log.durable_offset:
                counted, durable = partition.replica.durable, node.log.durable_offset
                self._simulator.violation(f"4: node {node.node_id} counts {counted} as durable, and {durable} are")
            if not partition.leading:
                continue
            if self._led.setdefault(epoch, node.in_sync) != node.in_sync:
                self._simulator.violation(f"2: {self._led[epoch]} and {node.in_sync} lead in epoch {epoch}")
            if epoch == state.leader_epoch and not self.excused:
                count = len(self.visible)
                if node.log.batches[:count] != self.visible:
                    end = node.log.log_end_offset
                    self._simulator.violation(
                        f"4: node {node.node_id} leads epoch {epoch}, ends at {end}, and lacks some of {count}"
                    )

    def at_rest(self) -> None:
        """1, 4, 9: nothing happens any more."""
        logs = [node.log.batches for node in self._nodes]
        if logs[1] != logs[0] or logs[2] != logs[0]:
            self._simulator.violation(f"1: logs differ, of {[len(found) for found in logs]} batches")
        if self.excused:
            return
        first = logs[0]
        for offset, value in self.acknowledged.items():
            if offset >= len(first) or first[offset][HEADER_SIZE:] != value:
                self._simulator.violation(f"4: what was acknowledged at {offset} is not there, of {len(first)}")
        values = [batch[HEADER_SIZE:] for batch in first]
        if len(set(values)) < len(values):
            self._simulator.violation("9: something is stored twice")
