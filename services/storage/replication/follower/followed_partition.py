"""One partition that this node follows, in one leader epoch."""

from libs.cluster.backoff import Backoff
from libs.rpc.contracts.replication import PulledFrom
from services.storage.core.replication.follower.following import TRANSITIONS, Event, LocalLog, State, position
from services.storage.disks.disks import Disk
from services.storage.partition.partition import Key, Partition

PUT_OFF_FIRST_S, PUT_OFF_MAX_S = 0.05, 1.0


class FollowedPartition:
    """A followed partition in one leader epoch. Another epoch gets another object, so holders of an old one see that it is
    `STOPPED`."""

    __slots__ = ("_backoff", "disk", "lag", "leader", "leader_epoch", "partition", "resume_at", "state")

    def __init__(self, partition: Partition, disk: Disk, leader: int, leader_epoch: int) -> None:
        self.partition = partition
        self.disk = disk
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.state = State.STOPPED
        self.lag = 0
        """Offsets that the leader's log had beyond this one, at its last answer."""
        self.resume_at = 0.0
        self._backoff = Backoff(PUT_OFF_FIRST_S, PUT_OFF_MAX_S)

    @property
    def key(self) -> Key:
        return self.partition.key

    @property
    def fetching(self) -> bool:
        return self.state is State.FETCHING

    def happened(self, event: Event) -> None:
        self.state = TRANSITIONS[self.state, event]

    def back_off(self, now: float) -> None:
        self.happened(Event.BACKED_OFF)
        self.resume_at = now + self._backoff.next_s()

    def throttle_until(self, resume_at: float) -> None:
        """Stops pulling for a while, because of the throttle and not of an error."""
        self.happened(Event.BACKED_OFF)
        self.resume_at = resume_at

    def succeeded(self) -> None:
        self._backoff.reset()

    @property
    def position(self) -> int:
        return position(self.partition.log.log_start_offset, self.partition.log.log_end_offset)

    @property
    def last_epoch(self) -> int:
        """The epoch of the last batch, deleted or not. An epoch without batches does not count."""
        log = self.partition.log
        return log.epochs.epoch_for(log.log_end_offset - 1)

    def pull_position(self) -> PulledFrom:
        log, at = self.partition.log, self.position
        return PulledFrom(*self.key, self.leader_epoch, at, min(log.durable_offset, at), self.last_epoch, log.log_start_offset)

    def local_log(self) -> LocalLog:
        log = self.partition.log
        return LocalLog(self.leader_epoch, log.log_start_offset, log.log_end_offset, self.last_epoch, self.partition.end_of_epoch)
