"""The invariants of every moment, seen from outside and inside: of metadata writes, and of every replica.

Numbers are those of the list in docs/simulation.md.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from struct import Struct

from libs.cluster import keys
from libs.cluster.codec import decode
from libs.cluster.records import ElectedController, InSync, PartitionState
from libs.cluster.store import Compare, CreateRevisionIs, Delete, Operation, Put
from libs.commitlog.cleaner.job import CleanJob
from services.storage.partition.partition import Key, Partition
from tests.simulation.cluster.compacted_topic import committed_entries, differences
from tests.simulation.cluster.processes import StorageProcess
from tests.simulation.cluster.world import World

_BATCH = Struct(">QI11xI")
"""The base offset of a batch, its length, and how far its last offset is from the base."""


@dataclass(slots=True)
class _Seen:
    """The observations of one replica in one life."""

    found: int
    """Where its log ended at first."""
    epoch: int = -1
    high_watermark: int = 0
    last_stable: int = 0


@dataclass(slots=True)
class Invariants:
    world: World
    storage: Sequence[StorageProcess]
    name_of: Callable[[Key], str]
    paged: Sequence[str] = ()
    """Topics that are not synced."""
    compacted: Sequence[str] = ()
    cleanings: int = 0
    states: dict[Key, PartitionState] = field(default_factory=dict)
    committed: dict[Key, int] = field(default_factory=dict)
    """The highest high watermark that any leader of its time had."""
    acknowledged: dict[Key, int] = field(default_factory=dict)
    changes: int = 0
    _lost_power: dict[tuple[int, int], None] = field(default_factory=dict)
    """Nodes, by the incarnation in which they did."""
    _seen: dict[tuple[str, Key], _Seen] = field(default_factory=dict)
    _led: dict[tuple[Key, int], str] = field(default_factory=dict)
    _former: dict[Key, list[tuple[float, PartitionState]]] = field(default_factory=dict)
    """States that were replaced, and when."""

    # --- metadata

    def applied(self, host: str, compares: Sequence[Compare], operations: Sequence[Operation]) -> None:
        """2, 5 and 6: as each transaction lands."""
        for operation in operations:
            if isinstance(operation, Delete) and operation.key.startswith(keys.PARTITIONS):
                for key in [key for key in self.states if keys.partition(*key).startswith(operation.key)]:
                    del self.states[key]
                    self.committed.pop(key, None)
                    self._former.pop(key, None)
            if isinstance(operation, Put) and operation.key.startswith(keys.PARTITIONS):
                self._state(keys.partition_of(operation.key), decode(PartitionState, operation.value))
                if not proves_leadership(compares):
                    self.world.violation(f"5: {operation.key} is written without proof of office")
                found = self.world.keyspace.get(keys.CONTROLLER)
                elected = f"controller-{decode(ElectedController, found.value).node_id}" if found is not None else "nobody"
                if host != elected:
                    self.world.violation(f"5: {operation.key} is written by {host} while {elected} is elected")

    def _state(self, key: Key, state: PartitionState) -> None:
        before = self.states.get(key)
        self.states[key] = state
        self.changes += 1
        isr = [member.node_id for member in state.isr]
        self.world.log_event(
            f"  {self.name_of(key)}: leader {state.leader}, epoch {state.leader_epoch}.{state.partition_epoch}, isr {isr}"
        )
        if not isr:
            self.world.violation(f"6: {self.name_of(key)}: the ISR is empty")
        replicas = [replica.node_id for replica in state.replicas]
        if len(set(replicas)) < len(replicas) or not {*isr, *state.adding, *state.removing} <= set(replicas):
            self.world.violation(f"6: {self.name_of(key)}: {state} does not fit together")
        if state.leader >= 0 and state.leader not in isr and not state.recovering:
            self.world.violation(f"6: {self.name_of(key)}: leader {state.leader} is not in its ISR {isr}")
        gone = all((member.node_id, member.incarnation) in self._lost_power for member in state.isr)
        if gone and self.name_of(key).rpartition("-")[0] in self.paged:
            # The last that had it left in good order, while nobody knew yet that the others had lost their power.
            self.world.excused[self.name_of(key)] = None
        if before is None:
            return
        self._former.setdefault(key, []).append((self.world.seconds, before))
        if _drops_the_old(before, state) and not set(replicas) <= set(isr):
            self.world.violation(f"6: {self.name_of(key)}: old replicas of {before} are dropped before all new ones are in sync")
        led_before, leads = (before.leader, before.leader_incarnation), (state.leader, state.leader_incarnation)
        if state.leader_epoch < before.leader_epoch or (led_before != leads and state.leader_epoch == before.leader_epoch):
            self.world.violation(
                f"2: {self.name_of(key)}: epoch {before.leader_epoch} of {led_before}, then {state.leader_epoch} of {leads}"
            )
        if state.partition_epoch <= before.partition_epoch:
            self.world.violation(
                f"6: {self.name_of(key)}: partition epoch {before.partition_epoch}, then {state.partition_epoch}"
            )

    def was(self, partition: tuple[str, int], since: float, holds: Callable[[PartitionState], bool]) -> bool:
        """Whether a state that somebody could see from then until now was such."""
        name = f"{partition[0]}-{partition[1]}"
        key = next((key for key in self.states if self.name_of(key) == name), None)
        if key is None:
            return False
        shown = [state for until, state in self._former.get(key, []) if until >= since]
        return any(holds(state) for state in (*shown, self.states[key]))

    def power_cut(self, host: str) -> None:
        """Checks that some in-sync replica of a partition that is not synced lives on with its writes."""
        held: dict[Key, set[tuple[int, int]]] = {}
        node = next((process.node_id for process in self.storage if process.host == host), -1)
        for process in self.storage:
            for key, _, incarnation in hosted_by(process):
                if process.host == host:
                    self._lost_power[process.node_id, incarnation] = None
                else:
                    held.setdefault(key, set()).add((process.node_id, incarnation))
        for key, state in self.states.items():
            if self.name_of(key).rpartition("-")[0] not in self.paged:
                continue
            in_sync = {(member.node_id, member.incarnation) for member in state.isr}
            if any(member.node_id == node for member in state.isr) and not in_sync & held.get(key, set()):
                self.world.excused[self.name_of(key)] = None
                self.world.log_event(f"  {self.name_of(key)} may lose something: it was in the page cache of {host} alone")

    # --- replicas

    def look(self) -> None:
        """2, 3 and 4: now."""
        leaders: dict[Key, list[tuple[str, Partition]]] = {}
        held: dict[tuple[Key, int, int], tuple[StorageProcess, Partition]] = {}
        for process in self.storage:
            for key, partition, incarnation in hosted_by(process):
                assert process.life is not None
                self._replica(process.life.name, key, partition)
                held[key, process.node_id, incarnation] = process, partition
                if partition.replica.leading:
                    leaders.setdefault(key, []).append((process.life.name, partition))
        for key, found in leaders.items():
            for life, partition in found:
                self._leader(life, key, partition, held)

    def _replica(self, life: str, key: Key, partition: Partition) -> None:
        # Some 100,000 times in a run: past the partition's properties.
        replica, log = partition.replica, partition.log
        high, epoch, end = replica.high_watermark, replica.leader_epoch, log.log_end_offset
        stable = log.last_stable_offset(high)
        seen = self._seen.get((life, key))
        if seen is None:
            seen = self._seen[life, key] = _Seen(end)
        if not stable <= high <= end:
            where = f"{self.name_of(key)} on {life}, epoch {epoch}"
            self.world.violation(f"3: {where}: last stable {stable}, high watermark {high}, end {end}")
        if epoch == seen.epoch and (high < seen.high_watermark or stable < seen.last_stable):
            where = f"{self.name_of(key)} on {life}, epoch {epoch}"
            self.world.violation(
                f"3: {where}: high watermark {seen.high_watermark} fell to {high}, or last stable {seen.last_stable} to {stable}",
                # A follower cuts its log to that of a leader which lost some.
                loss_of="" if replica.leading else self.name_of(key),
            )
        seen.epoch, seen.high_watermark, seen.last_stable = epoch, high, stable

    def _leader(
        self, life: str, key: Key, partition: Partition, held: Mapping[tuple[Key, int, int], tuple[StorageProcess, Partition]]
    ) -> None:
        epoch = partition.leader_epoch
        other = self._led.setdefault((key, epoch), life)
        if other != life:
            self.world.violation(f"2: {self.name_of(key)}: {other} and {life} both lead in epoch {epoch}")
        state = self.states.get(key)
        if state is None or state.leader_epoch != epoch:
            return
        high = partition.high_watermark
        before = self.committed.get(key, 0)
        if partition.log_end_offset < before:
            name = self.name_of(key)
            self.world.violation(
                f"4: {name}: {life} leads with end {partition.log_end_offset}, {before} was committed", loss_of=name
            )
        if high > before:
            self.committed[key] = high
        for member in state.isr:
            found = held.get((key, member.node_id, member.incarnation))
            if found is None:
                continue
            process, other_hosted = found
            end = other_hosted.log.durable_offset if other_hosted.replica.synced else other_hosted.log_end_offset
            if end < high and not self._found_on_disk(process, key, other_hosted, high):
                self.world.violation(
                    f"4: {self.name_of(key)}: high watermark {high} of {life}, and node {member.node_id} of the ISR holds {end}",
                    loss_of=self.name_of(key),
                )

    def _found_on_disk(self, process: StorageProcess, key: Key, partition: Partition, end: int) -> bool:
        """A node that starts vouches for nothing past its resume point before its first sync round, which a slow disk delays:
        what an earlier life synced is on the disk nevertheless, and counted when it was committed."""
        assert process.life is not None
        log = partition.log
        if end > min(self._seen[process.life.name, key].found, log.log_end_offset):
            return False
        return all(process.disk.keeps(segment.file.path, stop) for segment, stop in log.readable(end, len(log.segments)))

    # --- logs

    def cleaning(self, host: str, job: CleanJob) -> None:
        """11: as each job begins. The result of one is dropped if the log does not have its segments any more."""
        self.cleanings += 1
        for process in self.storage:
            for key, partition, _ in hosted_by(process) if process.host == host else ():
                if partition.log.directory != job.directory:
                    continue
                stable = min(partition.high_watermark, partition.last_stable_offset)
                here = {(segment.base_offset, segment.size) for segment in partition.log.segments}
                if job.end_offset > stable and all((one.base_offset, one.size) in here for one in job.segments):
                    what = f"{self.name_of(key)} on {host} is cleaned up to {job.end_offset}, stable is {stable}"
                    self.world.violation(f"11: {what}")

    def in_sync(self, key: Key, process: StorageProcess, incarnation: int) -> bool:
        state = self.states.get(key)
        return state is not None and not process.paused and InSync(process.node_id, incarnation) in state.isr

    def compare_logs(self, *, whole: bool) -> int:
        """1: what is committed is the same bytes everywhere; `whole`: all that there is. Returns how many bytes were compared."""
        compared = 0
        replicas: dict[Key, list[tuple[str, Partition]]] = {}
        for process in self.storage:
            for key, partition, incarnation in hosted_by(process):
                assert process.life is not None
                # Paused or cut off, it may have missed a loss that is excused, and cuts its log before it is in sync again.
                if self.name_of(key) in self.world.excused and not self.in_sync(key, process, incarnation):
                    continue
                replicas.setdefault(key, []).append((process.life.name, partition))
        for key, found in replicas.items():
            end = min(partition.log_end_offset if whole else partition.high_watermark for _, partition in found)
            start = max(partition.log_start_offset for _, partition in found)
            if self.name_of(key).rpartition("-")[0] in self.compacted:
                logs = [(life, content(partition, start, partition.log_end_offset)) for life, partition in found]
                for what in differences(committed_entries(logs), end):
                    self.world.violation(f"11: {self.name_of(key)}, below {end}: {what}")
                continue
            contents = [(life, content(partition, start, end)) for life, partition in found]
            first_life, first = contents[0]
            for life, other in contents[1:]:
                compared += len(other)
                if other != first:
                    at = next(
                        (at for at, (a, b) in enumerate(zip(first, other, strict=False)) if a != b), min(len(first), len(other))
                    )
                    self.world.violation(
                        f"1: {self.name_of(key)}: {first_life} and {life} differ below {end}, from byte {at} on "
                        f"({len(first)} and {len(other)} bytes)"
                    )
            if whole and len({partition.log_end_offset for _, partition in found}) > 1:
                ends = {life: partition.log_end_offset for life, partition in found}
                self.world.violation(f"15: {self.name_of(key)}: logs end at {ends} although nobody writes")
        return compared


def proves_leadership(compares: Sequence[Compare]) -> bool:
    return any(isinstance(one, CreateRevisionIs) and one.key == keys.CONTROLLER and one.revision for one in compares)


def _drops_the_old(before: PartitionState, state: PartitionState) -> bool:
    """Not what was being added: that may go at any time."""
    left = {replica.node_id for replica in state.replicas}
    return any(replica.node_id not in left and replica.node_id not in before.adding for replica in before.replicas)


def led_by_preferred(state: PartitionState) -> bool:
    """Whether the first replica that stays leads; the first original one while others are added."""
    firsts = [replica.node_id for replica in state.replicas if replica.node_id not in state.removing]
    return state.leader in (firsts[0], state.replicas[0].node_id)


def aims_at(state: PartitionState, replicas: Sequence[int]) -> bool:
    return [replica.node_id for replica in state.replicas if replica.node_id not in state.removing] == list(replicas)


def hosted_by(process: StorageProcess) -> list[tuple[Key, Partition, int]]:
    """The partitions that a running node hosts, with the node's incarnation."""
    if not process.running or process.what is None:
        return []
    partitions = process.what.partitions
    return [(key, partition, partitions.incarnation) for key, partition in partitions.by_key.items() if not partition.offline]


def content(partition: Partition, start: int, end: int) -> bytes:
    """The batches of [start, end)."""
    found = bytearray()
    offset = start
    while offset < end:
        piece = partition.log.read(offset, 1 << 30, end, at_least_one_batch=True)
        if piece is None or not piece.length:
            break
        data = partition.log.fs.pread(piece.file.handle.fd, piece.length, piece.position)
        found += data
        position, last = 0, offset
        while position + 61 <= len(data):
            base, length, last_delta = _BATCH.unpack_from(data, position)
            last = base + last_delta + 1
            position += 12 + length
        if last <= offset:
            break
        offset = last
    return bytes(found)
