"""A partition on this node: its log, its replica's numbers, and the appends of this turn."""

from collections.abc import Callable
from functools import partial
from typing import Final
from weakref import ref

from libs.cluster.configs.resolve import TopicConfig
from libs.commitlog.partition_log.log import BatchMeta, Log, Slice
from libs.commitlog.segments.segment import SegmentFile
from libs.wire.record_batches.batches import ProduceLimits
from libs.wire.record_batches.opened_batches import OpeningRules
from services.storage.core.produce.parked_produces import ParkedProduces
from services.storage.core.replication.leader.replica import Replica
from services.storage.partition.failed_reads import FailedReads
from services.storage.partition.partition_view import AbortedInRead
from services.storage.partition.pending_append import StagedAppend
from services.storage.partition.sync_scheduler import SyncScheduler
from services.storage.partition.topic_settings import log_config, opening_rules, produce_limits
from services.storage.partition.topic_traffic import TopicTraffic

Key = tuple[bytes, int]
"""(topic id, partition index)."""

READ_ON_ABORTED_MAX: Final = 20
READ_ON_BYTES: Final = 1 << 20
READ_ON_TIMES: Final = 4
"""A reader of committed records may read on in a file without its leader, if no more transactions than that were aborted there.
If more were, it may read on for so many bytes, or so many times what it read. With more there too, it asks each time."""


class Partition:
    """A partition with an open log; a `PartitionView`. It is used on the event loop only.

    Worker threads touch the log before the partition is made and after it is closed.
    """

    __slots__ = (
        "__weakref__",
        "acknowledged_end",
        "batches",
        "buffers",
        "cancel_move",
        "config",
        "failed_reads",
        "key",
        "limits",
        "log",
        "next_offset",
        "offline",
        "opens",
        "parked",
        "replica",
        "rules",
        "staged",
        "sync",
        "topic",
        "traffic",
    )

    def __init__(
        self,
        key: Key,
        topic: str,
        log: Log,
        replica: Replica,
        config: TopicConfig,
        sync: "SyncScheduler[Partition]",
        on_effects: Callable[["Partition"], None],
        traffic: TopicTraffic,
    ) -> None:
        """`on_effects` is called when the replica notes effects after its last were taken."""
        self.key = key
        self.topic = topic
        self.log = log
        self.replica = replica
        # Weak, since a cycle would keep the files of a closed log open, and their space taken, until the collector runs.
        replica.on_effects = partial(_notify, on_effects, ref(self))
        self.sync = sync
        self.traffic = traffic
        self.failed_reads = FailedReads()
        self.offline = False
        """The directory was retired, or the log takes no appends any more: every request gets KAFKA_STORAGE_ERROR."""
        self.cancel_move: Callable[[], None] | None = None
        """Ends a pending move to another log directory; None without one."""
        self.parked: ParkedProduces[StagedAppend] = ParkedProduces()
        self.acknowledged_end = 0
        """The end of what was acknowledged without a wait for its commit (acks=0 or 1)."""
        self.next_offset = log.log_end_offset
        """The offset of the next batch: behind the log's end and all staged batches."""
        self.staged: list[StagedAppend] = []
        self.buffers: list[memoryview] = []
        """The bytes of `batches`, in order; one for each staged batch or run."""
        self.batches: list[BatchMeta] = []
        self.config = config
        self.limits: ProduceLimits = produce_limits(config)
        self.rules: OpeningRules | None = opening_rules(config)
        """The rules for records. None: there are none, and batches stay closed."""
        self.opens = self.rules is not None
        """Whether a batch may have to be opened, or wait for one that is being opened."""

    def __str__(self) -> str:
        return f"{self.topic}-{self.key[1]}"

    def configure(self, config: TopicConfig) -> None:
        """Takes a changed configuration. It holds from the next batch on; index settings hold from the next segment on, as in
        Kafka."""
        self.config = config
        self.limits = produce_limits(config)
        self.rules = opening_rules(config)
        self.opens = self.opens or self.rules is not None
        self.log.config = log_config(config)

    def advance_start(self, offset: int) -> None:
        """Moves the log start to `offset`, which is on the disk already."""
        self.log.advance_start(offset)
        self.replica.log_start_rose()

    def take_staged(self) -> tuple[list[StagedAppend], list[memoryview], list[BatchMeta]]:
        taken = self.staged, self.buffers, self.batches
        self.staged, self.buffers, self.batches = [], [], []
        return taken

    @property
    def moving(self) -> bool:
        """Whether the replica moves to another log directory. The cleaner waits: its output must not go behind what was
        copied."""
        return self.cancel_move is not None

    # -- PartitionView ------------------------------------------------------------------------------------------------

    @property
    def node_id(self) -> int:
        return self.replica.node_id

    @property
    def leading(self) -> bool:
        return self.replica.leading

    @property
    def leader_epoch(self) -> int:
        return self.replica.leader_epoch

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def log_epoch(self) -> int:
        """The leader epoch of the last batch, deleted or not; -1 if there was none. An epoch without batches does not count."""
        return self.log.epochs.epoch_for(self.log.log_end_offset - 1)

    @property
    def high_watermark(self) -> int:
        return self.replica.high_watermark

    @property
    def last_stable_offset(self) -> int:
        return self.log.last_stable_offset(self.replica.high_watermark)

    @property
    def is_behind(self) -> bool:
        return self.replica.high_watermark < self.log.epochs.latest_start

    @property
    def active_file(self) -> SegmentFile:
        return self.log.active.file

    def read(self, offset: int, max_bytes: int, end_offset: int, *, at_least_one_batch: bool) -> Slice | None:
        return self.log.read(offset, max_bytes, end_offset, at_least_one_batch=at_least_one_batch)

    def aborted_transactions(self, piece: Slice, offset: int, end_offset: int, count_max: int) -> AbortedInRead | None:
        log = self.log
        if not log.aborted.has_any:
            return AbortedInRead(readable_to=piece.readable_to)
        found = log.aborted_transactions(piece, offset, end_offset, count_max)
        if len(found) > count_max:
            return None
        here = tuple([(each.producer_id, each.first_offset) for each in found])
        most = piece.readable_to - piece.position
        for length in (most, min(most, max(READ_ON_BYTES, READ_ON_TIMES * piece.length))):
            wider = piece._replace(length=length)
            if wider.length > piece.length:
                ahead = log.aborted_transactions(wider, offset, end_offset, READ_ON_ABORTED_MAX)
                if len(ahead) <= READ_ON_ABORTED_MAX:
                    described = tuple([(each.producer_id, each.first_offset, each.last_offset) for each in ahead])
                    return AbortedInRead(here, described, wider.position + wider.length)
        return AbortedInRead(here)

    def end_of_epoch(self, leader_epoch: int) -> tuple[int, int]:
        return self.log.epochs.end_offset_for(leader_epoch, self.log.log_end_offset)


def _notify(on_effects: Callable[[Partition], None], reference: "ref[Partition]") -> None:
    if (partition := reference()) is not None:
        on_effects(partition)
