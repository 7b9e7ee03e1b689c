"""What became of one partition, whoever leads it: its leaders, and what is committed. Replication itself is simulated elsewhere
(`tests/simulation/replication`).

What a leader appends is committed later. When the leader moves, a part of what is not committed is lost. The next leader commits
the rest. A leader that was replaced unawares may append as before, and commits nothing.
"""

from collections.abc import Callable
from random import Random

from services.storage.partition.partition import Key
from tests.simulation.transactions.record_log import RecordLog, StoredBatch

OnCommitted = Callable[["PartitionHistory", list[StoredBatch]], None]
KNOWN_HIGH_WATERMARKS = 3
"""A new leader knows one of the newest high watermarks."""


class PartitionHistory:
    def __init__(self, key: Key, topic: str, random: Random, on_committed: OnCommitted) -> None:
        self.key = key
        self.topic = topic
        self.leader = self.leader_incarnation = -1
        self.leader_epoch = 0
        self.partition_epoch = 0
        self.committed: list[StoredBatch] = []
        self.log: RecordLog | None = None
        """The leader's; None before it opens one."""
        self._inherited: list[StoredBatch] = []
        self._high_watermarks = [0]
        self._random = random
        self._on_committed = on_committed

    def __str__(self) -> str:
        return f"{self.topic}-{self.key[1]}"

    @property
    def committed_end(self) -> int:
        return self._high_watermarks[-1]

    def elect(self, node_id: int, incarnation: int) -> int:
        """Elects a leader. The number of batches that are lost, of those that were not committed."""
        known = self.log.batches if self.log is not None else self._inherited
        uncommitted = len(known) - len(self.committed)
        kept = self._random.randint(0, uncommitted)
        self._inherited, self.log = known[: len(self.committed) + kept], None
        self.leader, self.leader_incarnation = node_id, incarnation
        self.leader_epoch += 1
        self.partition_epoch += 1
        return uncommitted - kept

    def open(self, leader_epoch: int) -> tuple[RecordLog, int] | None:
        """The log that the leader of an epoch begins with, and the high watermark that it knows. None: it is replaced already."""
        if leader_epoch != self.leader_epoch:
            return None
        high_watermark = self._random.choice(self._high_watermarks[-KNOWN_HIGH_WATERMARKS:])
        self.log = RecordLog.copied(self._inherited, self._random, high_watermark)
        self.log.durable_offset = high_watermark
        return self.log, high_watermark

    def commit(self, leader_epoch: int, log: RecordLog, end: int) -> bool:
        """Commits what the leader has below `end`. False: another leads."""
        if leader_epoch != self.leader_epoch or log is not self.log:
            return False
        batches = [batch for batch in log.batches[len(self.committed) :] if batch.end <= end]
        self.committed += batches
        if end > self.committed_end:
            self._high_watermarks.append(end)
        self._on_committed(self, batches)
        return True
