"""What must hold at each commit, each answer and each read. Numbers are those of docs/simulation.md."""

from bisect import insort
from collections.abc import Mapping
from dataclasses import dataclass, field

from libs.wire.record_batches.records import iter_records
from services.storage.partition.partition import Key, Partition
from tests.simulation.replication.simulator import Simulator
from tests.simulation.transactions.labels import BatchName, Label, name_in
from tests.simulation.transactions.network import Process
from tests.simulation.transactions.partition_history import PartitionHistory
from tests.simulation.transactions.record_log import StoredBatch
from tests.simulation.transactions.transaction_log import TransactionLog

DATA = "data"
"""The topic to which producers write."""


@dataclass(slots=True)
class OpenTransaction:
    label: Label
    first_offset: int
    batches: list[BatchName] = field(default_factory=list)


class Checks:
    """Knows each committed batch, each marker and each answer."""

    def __init__(self, simulator: Simulator, histories: Mapping[Key, PartitionHistory]) -> None:
        self._simulator, self._histories = simulator, histories
        self._violation = simulator.violation
        self.log = TransactionLog(simulator)
        self.open: dict[tuple[Key, int], OpenTransaction] = {}
        """By partition and producer id, in the committed logs."""
        self.ended_in: dict[tuple[Key, Label], bool] = {}
        """Whether the transaction was committed there."""
        self.outcomes: dict[Label, bool] = {}
        self.stored: dict[Key, dict[BatchName, int]] = {
            history.key: {} for history in histories.values() if history.topic == DATA
        }
        """The offset of each committed batch."""
        self.visible: dict[Key, list[tuple[int, BatchName]]] = {key: [] for key in self.stored}
        """The offsets and names of the batches of committed transactions, in the order of the log."""
        self.acked: dict[BatchName, Key] = {}
        self.commits_asked: set[Label] = set()
        self.answered: dict[Label, bool] = {}
        """The outcomes that clients heard."""
        self.sent = 0
        self._given: dict[tuple[int, int], int] = {}
        self._stable: dict[tuple[str, Key, int], int] = {}
        self.reads = 0

    # -- what is committed ------------------------------------------------------------------------------------------------

    def committed(self, history: PartitionHistory, batches: list[StoredBatch]) -> None:
        for batch in batches:
            if history.topic != DATA:
                for _, after in self.log.committed(batch):
                    if after.state.value.startswith("Complete"):
                        self._completed(after.producer.producer_id, after.producer.epoch)
            elif batch.marker is None:
                self._batch(history.key, batch)
            else:
                self._marker(history.key, batch)

    def _batch(self, key: Key, batch: StoredBatch) -> None:
        header = batch.header
        (record,) = iter_records(batch.content)
        assert record.value is not None
        name = name_in(bytes(record.value))
        if name in self.stored[key]:
            self._violation(f"9: {name} is stored twice in {key[1]}, at {self.stored[key][name]} and {header.base_offset}")
        self.stored[key][name] = header.base_offset
        if (key, name.label) in self.ended_in:
            self._violation(f"10: {name} comes to {key[1]} after its transaction has ended there")
        former = self.open.get((key, header.producer_id))
        if former is None:
            former = self.open[key, header.producer_id] = OpenTransaction(name.label, header.base_offset)
            if not self.log.is_open(header.producer_id, header.producer_epoch, (DATA, key[1])):
                self._violation(f"10: {name} begins a transaction in {key[1]} that nobody ends: it was not added")
        elif former.label != name.label:
            self._violation(f"10: {name} joins {former.label} in {key[1]}")
        former.batches.append(name)

    def _marker(self, key: Key, batch: StoredBatch) -> None:
        assert batch.marker is not None
        header, commits = batch.header, not batch.marker.aborts
        story = f"a marker of producer {header.producer_id}, epoch {header.producer_epoch} in {key[1]} at {header.base_offset}"
        self._simulator.log_event("  %s %s", story, "commits" if commits else "aborts")
        if not self.log.decisions[header.producer_id, header.producer_epoch, commits]:
            self._violation(f"10: {story}, and that was never decided: commits={commits}")
        ended = self.open.pop((key, header.producer_id), None)
        if ended is None:
            return
        label = ended.label
        if not self.log.wants_marker(header.producer_id, header.producer_epoch, (DATA, key[1]), commits=commits):
            self._violation(f"10: {story} ends {label}, which the coordinator has not ended: commits={commits}")
        self.ended_in[key, label] = commits
        if self.outcomes.setdefault(label, commits) != commits:
            self._violation(f"10: {label} has two outcomes, the other one in {key[1]}")
        if commits and label not in self.commits_asked:
            self._violation(f"10: {label} is committed, and nobody asked for that")
        if self.answered.get(label, commits) != commits:
            self._violation(f"10: {label} ends otherwise than its client heard: commits={commits}")
        if commits:
            for name in ended.batches:
                insort(self.visible[key], (self.stored[key][name], name))

    def _completed(self, producer_id: int, epoch: int) -> None:
        for (key, opened_by), opened in self.open.items():
            if opened_by == producer_id:
                self._violation(f"10: producer {producer_id}/{epoch} is complete, and {opened.label} is open in {key[1]}")

    # -- what clients hear ------------------------------------------------------------------------------------------------

    def sends(self) -> None:
        self.sent += 1

    def acknowledged(self, name: BatchName, key: Key) -> None:
        if name not in self.stored[key]:
            self._violation(f"4: {name} is acknowledged, and not committed in {key[1]}")
        self.acked[name] = key

    def given(self, instance: int, transactional_id: str, producer: tuple[int, int]) -> None:
        if (transactional_id, producer) not in self.log.producers:
            self._violation(f"{transactional_id} is given {producer}, which the log does not have")
        if self._given.setdefault(producer, instance) != instance:
            self._violation(f"instances {self._given[producer]} and {instance} are both {producer}")

    def added(self, transactional_id: str, producer: tuple[int, int], index: int) -> None:
        if (transactional_id, *producer, index) not in self.log.additions:
            self._violation(f"partition {index} is added for {producer}, and the log does not have that")

    def asks_to_commit(self, label: Label) -> None:
        self.commits_asked.add(label)

    def ended(self, label: Label, *, commit: bool) -> None:
        self.answered[label] = commit
        if self.outcomes.get(label, commit) != commit:
            self._violation(f"10: the client of {label} hears another outcome than its partitions: commits={commit}")

    def decided(self, label: Label, producer: tuple[int, int], *, raises_epoch: bool) -> None:
        """An answer that a commit stands."""
        producer_id, epoch = producer
        if not self.log.decisions[producer_id, epoch + raises_epoch, True]:
            self._violation(f"10: the client of {label} hears of a commit that is not in the log")

    def fenced(self, story: str, producer: tuple[int, int], *, asked_to_abort: bool) -> None:
        """Only a later InitProducerId fences a producer, or an abort that it has not asked for."""
        producer_id, epoch = producer
        aborted = not asked_to_abort and self.log.decisions[producer_id, epoch + 1, False]
        if not aborted and self.log.initialized.get(producer_id, -1) <= epoch:
            self._violation(f"{story}, and nobody has fenced it")

    # -- readers ----------------------------------------------------------------------------------------------------------

    def stable(self, process: Process, partition: Partition) -> None:
        """Looks at the last stable offset of a partition that a node leads."""
        stable, history = partition.last_stable_offset, self._histories[partition.key]
        if not stable <= partition.high_watermark <= min(partition.log_end_offset, history.committed_end):
            self._violation(f"3: stable {stable}, high watermark {partition.high_watermark}, end {partition.log_end_offset}")
        place = process.name, partition.key, partition.leader_epoch
        if stable < self._stable.get(place, 0):
            self._violation(f"3: the last stable offset of {partition} falls from {self._stable[place]} to {stable}")
        self._stable[place] = stable
        for (key, _), opened in self.open.items():
            if key == partition.key and opened.first_offset < stable:
                self._violation(f"3: {partition} is stable up to {stable}, and {opened.label} is open from {opened.first_offset}")

    def read(self, key: Key, names: list[BatchName], begins: int) -> None:
        """A reader of committed records, which has read `begins` batches before, gets these next."""
        self.reads += len(names)
        expected = self.visible[key]
        for at, name in enumerate(names, begins):
            if not self.ended_in.get((key, name.label), False):
                self._violation(f"a reader sees {name} in {key[1]}, whose transaction is not committed there")
            elif at >= len(expected) or name != expected[at][1]:
                self._violation(f"a reader of {key[1]} sees {name}, and should see another")

    def has_read(self, key: Key, seen: int, position: int) -> None:
        """A reader that began at 0 has read to the end."""
        end = self._histories[key].committed_end
        if (seen, position) != (len(self.visible[key]), end):
            self._violation(f"a reader has {seen} of {len(self.visible[key])} batches of {key[1]}, up to {position} of {end}")

    # -- at rest ----------------------------------------------------------------------------------------------------------

    def at_rest(self) -> None:
        for (key, _), opened in self.open.items():
            self._violation(f"10: {opened.label} is open in {key[1]} for ever")
        for label, commit in self.answered.items():
            if self.outcomes.get(label, commit) != commit:
                self._violation(f"10: the client of {label} heard commit={commit}")
        for name, key in self.acked.items():
            committed = self.answered.get(name.label) or self.outcomes.get(name.label)
            if committed and not self.ended_in.get((key, name.label)):
                self._violation(f"{name} was acknowledged and its transaction committed, and {key[1]} has it not")
