"""One partition that this node follows, in one leader epoch."""

from libs.cluster.backoff import Backoff
from libs.rpc.contracts.replication import PulledFrom
from services.storage.core.following import TRANSITIONS, Event, Own, State, position
from services.storage.disks import Disk
from services.storage.hosted import Hosted, Key

PUT_OFF_FIRST_S, PUT_OFF_MAX_S = 0.05, 1.0


class Followed:
    """Another epoch makes another one, so that whoever still holds this one sees that it is `STOPPED`."""

    __slots__ = ("_backoff", "disk", "due_at", "hosted", "lag", "leader", "leader_epoch", "state")

    def __init__(self, hosted: Hosted, disk: Disk, leader: int, leader_epoch: int) -> None:
        self.hosted = hosted
        self.disk = disk
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.state = State.STOPPED
        self.lag = 0
        """Offsets that the leader's last answer had more."""
        self.due_at = 0.0
        self._backoff = Backoff(PUT_OFF_FIRST_S, PUT_OFF_MAX_S)

    @property
    def key(self) -> Key:
        return self.hosted.key

    @property
    def fetching(self) -> bool:
        return self.state is State.FETCHING

    def happened(self, event: Event) -> None:
        self.state = TRANSITIONS[self.state, event]

    def put_off(self, now: float) -> None:
        self.happened(Event.PUT_OFF)
        self.due_at = now + self._backoff.next_s()

    def wait_until(self, due_at: float) -> None:
        """Nothing is wrong with it: it is throttled."""
        self.happened(Event.PUT_OFF)
        self.due_at = due_at

    def went_well(self) -> None:
        self._backoff.reset()

    @property
    def position(self) -> int:
        return position(self.hosted.log.log_start_offset, self.hosted.log.log_end_offset)

    @property
    def last_epoch(self) -> int:
        """Of the last batch, deleted or not. An epoch in which nothing was written is none of the log's."""
        found = self.hosted.log
        return found.epochs.epoch_for(found.log_end_offset - 1)

    def standing(self) -> PulledFrom:
        found, at = self.hosted.log, self.position
        return PulledFrom(
            *(*self.key, self.leader_epoch, at, min(found.durable_offset, at)), self.last_epoch, found.log_start_offset
        )

    def own(self) -> Own:
        found = self.hosted.log
        return Own(self.leader_epoch, found.log_start_offset, found.log_end_offset, self.last_epoch, self.hosted.end_of_epoch)
