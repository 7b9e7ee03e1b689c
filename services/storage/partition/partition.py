"""A partition that lives on this node: its log, its numbers, and the appends that this turn has brought so far."""

from libs.cluster.configs.resolve import TopicConfig
from libs.commitlog.log import BatchMeta, Log, Slice
from libs.commitlog.segment import SegmentFile
from libs.wire.batches import ProduceLimits
from libs.wire.opened_batches import OpeningRules
from services.storage.core.parked_produces import ParkedProduces
from services.storage.core.replica import Replica
from services.storage.failed_reads import FailedReads
from services.storage.sync_scheduler import SyncScheduler
from services.storage.topic_settings import log_config, opening_rules, produce_limits
from services.storage.waiting import Staged

Key = tuple[bytes, int]
"""(topic id, partition index)."""


class Hosted:
    """Implements `PartitionView`. Used on the event loop only; a worker touches the log before it is here and after it left."""

    __slots__ = (
        "batches",
        "buffers",
        "config",
        "failed_reads",
        "key",
        "limits",
        "log",
        "moving",
        "next_offset",
        "offline",
        "opens",
        "parked",
        "replica",
        "rules",
        "staged",
        "sync",
        "topic",
    )

    def __init__(self, key: Key, topic: str, log: Log, replica: Replica, config: TopicConfig, sync: SyncScheduler) -> None:
        self.key = key
        self.topic = topic
        self.log = log
        self.replica = replica
        self.sync = sync
        self.failed_reads = FailedReads()
        self.offline = False
        """The directory was retired, or the log takes no appends any more: everything is answered 56."""
        self.moving = False
        """To another log directory: what was copied must not be followed by what the cleaner left of it."""
        self.parked: ParkedProduces[Staged] = ParkedProduces()
        self.next_offset = log.log_end_offset
        """Where the next batch goes: the log's end, and past what is staged."""
        self.staged: list[Staged] = []
        self.buffers: list[memoryview] = []
        self.batches: list[BatchMeta] = []
        self.config = config
        self.limits: ProduceLimits = produce_limits(config)
        self.rules: OpeningRules | None = opening_rules(config)
        """What is asked of records; None: nothing, and batches stay closed."""
        self.opens = self.rules is not None
        """Whether a batch that comes may have to be opened, or wait for one that is."""

    def __str__(self) -> str:
        return f"{self.topic}-{self.key[1]}"

    def configure(self, config: TopicConfig) -> None:
        """Holds from the next batch on. Index settings hold from the next segment on, as in Kafka."""
        self.config = config
        self.limits = produce_limits(config)
        self.rules = opening_rules(config)
        self.opens = self.opens or self.rules is not None
        self.log.config = log_config(config)

    def take_staged(self) -> tuple[list[Staged], list[memoryview], list[BatchMeta]]:
        taken = self.staged, self.buffers, self.batches
        self.staged, self.buffers, self.batches = [], [], []
        return taken

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

    def aborted_transactions(self, piece: Slice, offset: int, end_offset: int) -> tuple[tuple[int, int], ...]:
        found = self.log.aborted_transactions(piece, offset, end_offset)
        return tuple([(aborted.producer_id, aborted.first_offset) for aborted in found])

    def end_of_epoch(self, leader_epoch: int) -> tuple[int, int]:
        return self.log.epochs.end_offset_for(leader_epoch, self.log.log_end_offset)
