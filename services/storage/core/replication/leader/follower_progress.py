"""The progress of one follower of one partition, as its leader knows it, and whether that is enough.

A follower is caught up at a moment if it has everything that the leader's log held then. The leader cannot compare at every
moment, so it remembers one: its log end, and the time. Once the follower has reached that end, it was caught up at that time, and
the next moment is remembered.

Kafka compares with the end at the previous fetch instead. The two differ only for a follower whose durable offset trails its log
end by more than one pull, which Kafka does not have. On a `synced` topic only records that are durable at the follower count.
"""

from typing import Protocol

from libs.lean_dataclass import dataclass


class Contact(Protocol):
    """The follower's session. A pull proves for all its partitions that the follower lives."""

    alive_at: float


@dataclass(frozen=True, slots=True)
class LagLimits:
    """The limits of lag in the ISR. `max_messages` 0 means no limit; Kafka removed its own, since a burst threw out everybody."""

    time_s: float = 30.0
    max_messages: int = 0


class MemberProgress:
    """Two of a replica's three numbers. The leader's own are in the same form."""

    __slots__ = ("durable", "log_end")

    def __init__(self, durable: int, log_end: int) -> None:
        self.durable = durable
        self.log_end = log_end


NOTHING = MemberProgress(0, 0)
"""The progress of a member that has not reported yet. It is never written to."""


class FollowerProgress(MemberProgress):
    """The progress of a replica in or out of the ISR, in one leader epoch and one incarnation. It begins with nothing."""

    __slots__ = ("_mark_at", "_mark_end", "caught_up_at", "contact", "incarnation", "log_start", "reported")

    def __init__(self, incarnation: int, caught_up_at: float | None = None) -> None:
        super().__init__(0, 0)
        self.incarnation = incarnation
        self.reported = False
        """Whether its log was compared with the leader's, in this epoch and incarnation."""
        self.log_start = -1
        """Where the follower's log starts, also on its disk. -1: not reported yet."""
        self.contact: Contact | None = None
        self.caught_up_at = caught_up_at
        """None until the first check: a new leader gives every follower the full time."""
        self._mark_end = -1
        self._mark_at = 0.0

    def position(self, *, synced: bool) -> int:
        return self.durable if synced else self.log_end

    def observe(self, now: float, leader_end: int, *, synced: bool, reported_now: bool) -> None:
        """Updates what is known, with the leader's present log end. `reported_now`: the follower has just reported."""
        position = self.position(synced=synced)
        if self.reported and position >= leader_end:
            if reported_now:
                self._caught_up(now)
            elif self.contact is not None:
                self._caught_up(self.contact.alive_at)
            self._mark_end = -1
            return
        if self._mark_end >= 0:
            if position < self._mark_end:
                return
            self._caught_up(self._mark_at)
        self._mark_end, self._mark_at = leader_end, now

    def was_at_the_end(self, at: float) -> None:
        """Notes that the follower was caught up at that moment, or at its last pull if that is earlier."""
        if self.contact is not None:
            self._caught_up(min(at, self.contact.alive_at))

    def lags(self, now: float, leader_end: int, limits: LagLimits, *, synced: bool) -> bool:
        """Whether the follower has been behind for too long, or too far.

        At the leader's end it is in sync, however long it was silent. Whether it is alive is decided elsewhere.
        """
        if self.caught_up_at is None:
            self.caught_up_at = now
        missing = leader_end - self.position(synced=synced)
        if self.reported and missing <= 0:
            return False
        return now - self.caught_up_at > limits.time_s or 0 < limits.max_messages < missing

    def shown(self, now: float, leader_end: int) -> dict[str, object]:
        """For the admin port: its positions, what it lacks, and how long ago it was heard and caught up, in seconds."""
        return {
            "reported": self.reported,
            "fetch": self.log_end,
            "durable": self.durable,
            "lacks": leader_end - self.log_end,
            "lacks_durable": leader_end - self.durable,
            "heard_ago_s": round(now - self.contact.alive_at, 3) if self.contact is not None else None,
            "caught_up_ago_s": round(now - self.caught_up_at, 3) if self.caught_up_at is not None else None,
        }

    def _caught_up(self, at: float) -> None:
        if self.caught_up_at is None or at > self.caught_up_at:
            self.caught_up_at = at
