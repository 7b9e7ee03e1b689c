"""The life of a storage node, drawn at random: appends, rounds, rolls, truncations, epochs, topics that come and go."""

import errno
import itertools
from collections.abc import Callable
from random import Random

from libs.commitlog.partition_log.retention import RetentionPolicy
from libs.commitlog.producers.producer_state import ProducerEntry
from tests.simulation.batches import make_batch, make_marker
from tests.simulation.cleanup import Cleanup, Job
from tests.simulation.disk import SimulatedDisk
from tests.simulation.model import DiskModel, PartitionModel
from tests.simulation.node import PATH, Node

PARTITIONS_MAX = 3
RETURNS = 0.5
"""The share of names that the same topic takes again: a replica that left and came back."""
CHURNS = 0.2
"""The share of runs in which names change hands often, above all those of logs that were compacted."""
HANDS = 0.2
"""The share of restarts in those runs before which a directory vanishes."""
TRANSACTIONAL = (2, 3)
"""Producers that write nothing outside of a transaction."""
_WEIGHTS = {
    "append": 12,
    "round": 8,
    "epoch": 1,
    "roll": 1,
    "truncate": 1.5,
    "create": 1,
    "delete": 0.3,
    "set aside": 0.15,
    "retention": 1,
    "delete records": 1,
    "compact": 3,
    "upkeep": 14,
    "checkpoint": 0.4,
    "power cut": 0.6,
    "kill": 0.4,
    "stop": 0.8,
}
_FAULTS = (
    ("pwritev", errno.ENOSPC),
    ("pwritev", errno.ENOSPC),
    ("pwritev", errno.EIO),
    ("create", errno.ENOSPC),
    ("reserve", errno.ENOSPC),
    ("truncate", errno.EIO),
    ("fdatasync", errno.EIO),
    ("fdatasync", errno.EIO),
    ("fdatasync", errno.EIO),
    ("fdatasync", errno.EIO),
    ("fsync_directory", errno.EIO),
    ("pread", errno.EIO),
    ("rename", errno.ENOSPC),
    ("rename", errno.EIO),
)


class Workload:
    """`step` does one thing, and says if the process must end for it, and how."""

    def __init__(
        self, node: Node, model: DiskModel, random: Random, names: Random, *, faulty: bool, story: list[str] | None
    ) -> None:
        """`names` decides of whom a name becomes."""
        self.node, self.model, self.random, self.faulty, self.story = node, model, random, faulty, story
        self.names = names
        self.churns = names.random() < CHURNS
        self.epoch = 0
        self.closing = False
        self.now_ms = 1_000_000
        self._topics = 0
        self._weights = {name: weight * random.choice((0.5, 1, 2)) for name, weight in _WEIGHTS.items()}
        self._busy = False
        self._ran = False
        self.begin()

    def begin(self, node: Node | None = None) -> None:
        """A process starts, and knows nothing of what the one before it was about to do."""
        self.node = node or self.node
        self.cleanup = Cleanup(self.node, self.model, self.random, self.now_ms)
        self._jobs: list[tuple[str, Job]] = []
        for topic_id in self.model.deleted():
            stray = self.model.partitions[topic_id]
            self._tell(f"{stray}: set aside, nobody asks for it")
            self._try(lambda stray=stray: self.node.delete(stray, stray=True))  # type: ignore[misc]

    def step(self) -> str | None:
        disk, random = self.node.disk, self.random
        self.now_ms = self.cleanup.now_ms = self.now_ms + random.randrange(3000)
        if self.node.retired:
            return "power cut"
        if len(self.node.failed) > 1 or (self.node.failed and random.random() < 0.2):
            return random.choice(("power cut", "kill"))
        if self.faulty and random.random() < 0.25:
            disk.faults.heal()
            self._plan_a_fault()
        (act,) = random.choices(list(self._weights), list(self._weights.values()))
        if act == "upkeep" and not self._jobs:
            act = "append"
        partition = self._partition()
        if act == "create" or not self.model.present():
            self._create()
        elif act == "round":
            self._round()
        elif act == "upkeep":
            self._go_on_with_a_job()
        elif act == "checkpoint":
            self._tell("checkpoints")
            self._try(lambda: self.node.write_checkpoints(self.model))
        elif act in ("power cut", "kill"):
            return act
        elif act == "stop":
            return self._stop()
        elif partition is not None:
            self._on_partition(act, partition)
        return None

    def meanwhile(self) -> None:
        """The event loop does not wait for a round that runs."""
        if not (self.node.running or self.node.working) or self._busy or self.random.random() >= 0.1:
            return
        partition = self._partition()
        if partition is not None:
            self._busy = True
            self.node.disk.sometimes("append while a round ran", self.node.running)
            self.node.disk.sometimes("append amid upkeep", bool(self.node.working))
            try:
                self._append(partition)
            finally:
                self._busy = False

    def _partition(self) -> PartitionModel | None:
        """One that takes appends."""
        usable = [
            partition
            for partition in self.model.present()
            if partition.topic_id in self.node.logs and partition.topic_id not in self.node.failed
        ]
        return self.random.choice(usable) if usable else None

    def _on_partition(self, act: str, partition: PartitionModel) -> None:
        if act == "append":
            self._append(partition)
        elif act == "epoch":
            self.epoch += 1
            self._tell(f"{partition}: epoch {self.epoch} begins")
            self.node.begin_epoch(partition, self.epoch)
        elif act == "roll":
            self._tell(f"{partition}: roll")
            self._try(lambda: self.node.roll(partition))
        elif act == "truncate" and partition.headers:
            low = max(partition.committed, partition.cleaned, self.node.logs[partition.topic_id].next_start_offset)
            offset = max(low, self.random.choice((self.random.randint(low, partition.end), partition.end - 2, partition.durable)))
            self._tell(f"{partition}: truncate to {offset}, of {partition.end}")
            self.node.truncate(partition, offset)
        elif act in ("delete", "set aside"):
            self._finish_round()
            if not self.node.retired:
                self._tell(f"{partition}: {act}")
                self._try(lambda: self._delete(partition, stray=act == "set aside"))
        elif act == "retention":
            policy = RetentionPolicy(self.random.choice((-1, -1, 990_000)), self.random.choice((-1, 0, 1000, 3000)))
            self._begin(f"{partition}: {policy}", lambda: self.cleanup.retention([partition], policy))
        elif act == "delete records":
            log = self.node.logs[partition.topic_id]
            high_watermark = self.node.high_watermark(partition.topic_id)
            offset = self.random.choice((self.random.randint(log.log_start_offset, high_watermark), high_watermark))
            self._begin(f"{partition}: delete records before {offset}", lambda: self.cleanup.delete_records(partition, offset))
        elif act == "compact" and partition.topic_id not in self.cleanup.busy:
            if self.random.random() < 0.7:
                self._append(partition, ending=True)
                self._try(lambda: self.node.roll(partition))
                self._whole_round()
            self._begin(f"{partition}: compact", lambda: self.cleanup.compact(partition))

    def _begin(self, name: str, job: Callable[[], Job]) -> None:
        self._tell(f"{name}: begins")
        self._jobs.append((name, job()))

    def _go_on_with_a_job(self) -> None:
        """Runs a job until it waits for something."""
        if not self._jobs:
            return
        slot = self.random.randrange(len(self._jobs))
        name, job = self._jobs[slot]
        self._tell(f"{name}: goes on")
        wait = next(job, None)
        if wait is None:
            del self._jobs[slot]
            self._give_a_name_away()
        elif wait == "round":  # the one that runs may have begun before
            self._whole_round()
        elif self.random.random() < 0.6 and not self.node.retired:
            self._go_on_with_a_job()

    def _append(self, partition: PartitionModel, *, ending: bool = False) -> None:
        """`ending`: what ends all transactions that are open, and nothing else."""
        batches: list[bytearray] = []
        offset = partition.end
        known = self._entries(partition)
        sequences = {producer: entry.batches[-1].last_sequence + 1 for producer, entry in known.items() if entry.batches}
        epoch = max(self.epoch, self.node.logs[partition.topic_id].epochs.latest)
        busy = {producer for producer, entry in self._entries(partition).items() if entry.transaction_first_offset >= 0}
        for producer in sorted(busy) if ending else ():
            batches.append(make_marker(self.random, offset, epoch, producer))
            offset += 1
        if ending and not batches:
            return
        for _ in range(0 if ending else self.random.choice((1, 1, 2, 5))):
            producer = self.random.choice((-1, 0, 1, *TRANSACTIONAL))
            fields = {} if producer < 0 else {"producer_id": producer, "sequence": sequences.get(producer, 0)}
            size = self.random.choice((5, 30, 100, 400))
            if producer in busy and self.random.random() < 0.5:
                batches.append(make_marker(self.random, offset, epoch, producer))
                busy.discard(producer)
                offset += 1
                continue
            if producer in TRANSACTIONAL:
                busy.add(producer)
            batch = make_batch(self.random, offset, epoch, size=size, transactional=producer in TRANSACTIONAL, **fields)
            count = int.from_bytes(batch[57:61], "big")
            offset += count
            if producer >= 0:
                sequences[producer] = sequences.get(producer, 0) + count
            batches.append(batch)
        end = f"offsets {partition.end} to {offset - 1}"
        self._tell(f"{partition}: append {len(batches)} batches, {sum(map(len, batches))} bytes, {end}")
        self.node.append(partition, batches, self._while_staged)

    def _while_staged(self) -> None:
        """Now and then a round begins with what is in the log, while batches behind it wait to be written."""
        if self.node.round is None and self.random.random() < 0.1:
            self._tell("round: capture, while batches are staged")
            self.node.disk.sometimes("round captured while batches were staged")
            self.node.capture(self.model, self.random)
            self._ran = False

    def _entries(self, partition: PartitionModel) -> dict[int, ProducerEntry]:
        return self.node.logs[partition.topic_id].producers.entries

    def _round(self) -> None:
        """A third of a round: others work in between."""
        if self.node.round is None:
            self._tell("round: capture")
            self.node.capture(self.model, self.random)
            self._ran = False
        elif not self._ran:
            self._tell("round: run")
            self._ran = self.node.run()
        else:
            self._tell("round: mark")
            self.node.mark()
        if self.random.random() < 0.3 and not self.node.retired:
            self._finish_round()

    def _finish_round(self) -> None:
        while self.node.round is not None and not self.node.retired:
            if not self._ran:
                self._tell("round: run")
                self._ran = self.node.run()
            else:
                self._tell("round: mark")
                self.node.mark()

    def _whole_round(self) -> None:
        self._finish_round()
        if not self.node.retired:
            self._tell("round: capture")
            self.node.capture(self.model, self.random)
            self._ran = False
            self._finish_round()

    def _create(self) -> None:
        if len(self.model.present()) >= PARTITIONS_MAX:
            return
        names = {str(partition) for partition in self.model.partitions.values() if partition.stage != "gone"}
        index = next(i for i in itertools.count() if f"t-{i}" not in names)  # those being deleted still have theirs
        self._topics += 1
        partition = PartitionModel("t", index, self.random.randbytes(16))
        former = [
            one for one in self.model.partitions.values() if one.index == index and one.stage == "gone" and not one.vanished
        ]
        if self.churns and former and former[-1].topic_id not in self.node.failed and self.names.random() < RETURNS:
            partition.topic_id = former[-1].topic_id
        self.node.disk.sometimes("a replica left and came back", bool(former) and partition.topic_id == former[-1].topic_id)
        self.node.disk.sometimes("a topic was made anew under a compacted name", any(one.claimed for one in former))
        self._tell(f"{partition}: create")
        self._try(lambda: self.node.create(self.model, partition))

    def _give_a_name_away(self) -> None:
        """Now and then a log leaves after it was compacted, and another one takes its name at once."""
        compacted = [one for one in self.model.present() if one.claimed and one.topic_id not in self.cleanup.busy]
        if self.churns and compacted and self.names.random() < 0.5:
            partition, stray = self.names.choice(compacted), self.names.random() < 0.3
            self._finish_round()
            if not self.node.retired:
                self._tell(f"{partition}: its name is given away")
                self._try(lambda: self._delete(partition, stray=stray))
                self._create()

    def lose_a_directory(self, disk: SimulatedDisk) -> None:
        """Somebody deletes a topic while no process runs, and removes its directory by hand."""
        present = self.model.present()
        if self.churns and present and self.names.random() < HANDS:
            partition = self.names.choice(present)
            self._tell(f"{partition}: somebody removes its directory")
            disk.faults.heal()
            disk.remove_tree(f"{PATH}/{partition}")
            disk.fsync_directory(PATH)
            partition.stage, partition.vanished = "gone", True
            disk.sometimes("a directory was removed by hand")

    def _delete(self, partition: PartitionModel, *, stray: bool) -> None:
        path = self.node.delete(partition, stray=stray)
        if not stray and self.random.random() < 0.7:
            self.node.remove(self.model, path)

    def _stop(self) -> str | None:
        self._finish_round()
        self.node.capture(self.model, self.random)
        self._ran = False
        self._finish_round()
        all_open = all(partition.topic_id in self.node.logs for partition in self.model.present())
        if self.node.retired or self.node.failed or not all_open:
            return "power cut"  # such a directory is not marked clean
        self._tell("clean stop")
        self.closing = True
        try:
            closed = self._try(lambda: self.node.close_clean(self.model))
        finally:
            self.closing = False
        return self.random.choice(("kill", "power cut")) if closed else "power cut"

    def _try(self, work: Callable[[], object]) -> bool:
        """A disk that refuses is an answer, not an accident."""
        try:
            work()
        except OSError as error:
            self._tell(f"refused: {error}")
            return False
        return True

    def _plan_a_fault(self) -> None:
        operation, error = self.random.choice(_FAULTS)
        after = self.random.choice((0, 0, 1, 2, 4))
        half = self.random.random() < 0.5
        self._tell(f"from now: {operation} number {after} fails with {errno.errorcode[error]}")
        self.node.disk.faults.fail(operation, error, after=after, half=half)
        self.node.disk.sometimes("disk full", error == errno.ENOSPC)

    def _tell(self, line: str) -> None:
        if self.story is not None:
            self.story.append(line)
