"""One replica of one partition as its leader sees it: who is in sync, how far each has come, and what is committed.

Three numbers per replica, never mixed up: the log end (next offset to write), the durable offset (all before it survive a power
cut here) and the high watermark (all before it are committed, so consumers may read them).

On a `synced` topic the high watermark is the smallest *durable* offset over the in-sync replicas, leader included; on a
`replicated` topic it is their smallest log end, which is Kafka's usual meaning (DESIGN section 7, Durability).
"""

from collections.abc import Callable, Iterable

from libs.cluster.records import InSync
from services.storage.core.follower_progress import NOTHING, Contact, FollowerProgress, LagLimits, MemberProgress
from services.storage.core.in_sync import InSyncReplicas, Proposal, Standing
from services.storage.core.leadership import Lead

Eligible = Callable[[int, int], bool]
"""(node id, incarnation) → whether it lives in that incarnation, and means to stay."""


class Replica:
    """The numbers of a partition on this node. A method that can raise the high watermark tells whether it did."""

    __slots__ = (
        "_alone",
        "_counted",
        "_even_at",
        "_followers",
        "_incarnation",
        "_own",
        "_replicas",
        "epoch_start",
        "has_followers",
        "high_watermark",
        "in_sync",
        "isr",
        "lax",
        "leader_epoch",
        "leading",
        "min_in_sync",
        "node_id",
        "start_watchers",
        "synced",
    )

    def __init__(self, node_id: int, *, log_end: int, durable: int, high_watermark: int, synced: bool) -> None:
        self.node_id = node_id
        self.synced = synced
        self.min_in_sync = 1
        self.leading = False
        self.leader_epoch = -1
        self.epoch_start = 0
        """Where the log ended when this node began to lead."""
        self.high_watermark = max(0, min(high_watermark, log_end))
        self.in_sync = 0
        """How many are in the committed ISR; admission goes by it."""
        self.has_followers = False
        """Leading, and there are others who may copy: in or out of the ISR."""
        self.isr = InSyncReplicas(-1)
        self.lax = False
        """Leading a partition whose state says that what was acknowledged may be in page caches only."""
        self.start_watchers: list[Callable[[], None]] = []
        """Called whenever `least_start` may have risen, or this node leads no longer."""
        self._own = MemberProgress(durable, log_end)
        self._incarnation = -1
        self._replicas: tuple[int, ...] = ()
        self._followers: dict[int, FollowerProgress] = {}
        self._counted: list[MemberProgress] = []  # of the maximal ISR
        self._alone = True
        self._even_at: float | None = None
        """When nobody was behind, as far as is known."""

    @property
    def log_end(self) -> int:
        return self._own.log_end

    @property
    def durable(self) -> int:
        return self._own.durable

    # -- leadership ---------------------------------------------------------------------------------------------------

    def lead(self, role: Lead) -> bool:
        """Start to lead in this epoch, or hear of another state in it. Every follower counts from nothing in each epoch."""
        if role.leader_epoch < self.leader_epoch:
            raise ValueError(f"leader epoch {role.leader_epoch} is behind {self.leader_epoch}")
        if not self.leading or role.leader_epoch > self.leader_epoch:
            self.leader_epoch = role.leader_epoch
            self.leading = True
            self.epoch_start = self._own.log_end
            self.isr = InSyncReplicas(role.leader_epoch)
            self._followers = {}
            self._even_at = None
        self._incarnation = role.incarnation
        self._replicas = role.replicas
        self.lax = role.lax
        self.has_followers = any(node != self.node_id for node in role.replicas)
        self.isr.shown(role.partition_epoch, role.in_sync)
        return self._recount()

    def resign(self, leader_epoch: int) -> None:
        """Lead no longer. The high watermark stays: what was committed stays readable to the next leader."""
        self.leading = False
        self.leader_epoch = max(self.leader_epoch, leader_epoch)
        self.has_followers = self.lax = False
        self.isr = InSyncReplicas(-1)
        self._followers = {}
        self._counted = []
        self.in_sync = 0
        self._tell_start_watchers()

    # -- progress -----------------------------------------------------------------------------------------------------

    def appended(self, log_end: int) -> bool:
        """The leader's own log grew to `log_end`."""
        self._own.log_end = log_end
        return not self.synced and self._advance()

    def synced_to(self, durable: int) -> bool:
        """A sync round made everything before `durable` survive a power cut on this node."""
        if durable > self._own.durable:
            self._own.durable = durable
        return self.synced and self._advance()

    def reported(
        self,
        node_id: int,
        incarnation: int,
        *,
        log_end: int,
        durable: int,
        now: float,
        contact: Contact | None = None,
        log_start: int = -1,
    ) -> bool:
        """A follower told where it stands, and its log up to there was found to be the leader's. It may have gone back."""
        follower = self._follower(node_id, incarnation)
        if follower is None:
            return False
        follower.log_end = min(log_end, self._own.log_end)
        follower.durable = min(durable, follower.log_end)
        follower.reported = True
        follower.contact = contact
        self._starts_at(follower, log_start)  # a log that was set aside begins earlier again
        return self._heard(follower, now)

    def made_durable(self, node_id: int, incarnation: int, durable: int, now: float, log_start: int = -1) -> bool:
        """A follower's sync round ended, or its log starts later. It says nothing until its log has been compared in this epoch:
        it may be another's."""
        follower = self._followers.get(node_id)
        if not self.leading or follower is None or not follower.reported or follower.incarnation != incarnation:
            return False
        follower.durable = max(follower.durable, min(durable, self._own.log_end))
        follower.log_end = max(follower.log_end, follower.durable)
        self._starts_at(follower, max(follower.log_start, log_start))
        return self._heard(follower, now)

    def least_start(self, own: int) -> int:
        """Where the logs of the maximal ISR start at the earliest, `own` being this node's; -1 while somebody has not told."""
        others = [
            member.log_start if isinstance(member, FollowerProgress) else -1
            for member in self._counted
            if member is not self._own
        ]
        return min([own, *others])

    def _starts_at(self, follower: FollowerProgress, log_start: int) -> None:
        if log_start != follower.log_start:
            follower.log_start = log_start
            self._tell_start_watchers()

    def _tell_start_watchers(self) -> None:
        for watcher in tuple(self.start_watchers):
            watcher()

    def left(self, node_id: int) -> None:
        """The follower pulls this partition no longer, for now: it is not let in on what it said before."""
        follower = self._followers.get(node_id)
        if follower is not None:
            follower.contact = None

    def _follower(self, node_id: int, incarnation: int) -> FollowerProgress | None:
        """Of who reports now; None when nobody counts it, or a later incarnation of it has reported."""
        if not self.leading or node_id == self.node_id:
            return None
        follower = self._followers.get(node_id)
        if follower is not None and follower.incarnation > incarnation:
            return None
        if follower is None or follower.incarnation < incarnation:
            follower = self._followers[node_id] = FollowerProgress(incarnation, follower.caught_up_at if follower else None)
            self._recount()
        return follower

    def _heard(self, follower: FollowerProgress, now: float) -> bool:
        follower.observe(now, self._own.log_end, synced=self.synced, heard=True)
        return self._advance()

    # -- the ISR ------------------------------------------------------------------------------------------------------

    @property
    def missing(self) -> int:
        """Replicas of a partition that this node leads that are not in sync."""
        return len(self._replicas) - self.in_sync if self.leading else 0

    def readers(self, offset: int) -> list[tuple[int, int]]:
        """In-sync followers that have all before `offset`, with their log ends."""
        found = []
        for node_id, incarnation in self.isr.committed.items():
            follower = self._followers.get(node_id)
            if follower is not None and follower.reported and follower.incarnation == incarnation and follower.log_end >= offset:
                found.append((node_id, follower.log_end))
        return found

    def may_join(self, node_id: int, log_start: int = 0) -> bool:
        """It is outside, and has all that is committed and all from before this epoch: what a candidate for leader must have.

        Nor must it have, on its disk, what was deleted before `log_start`: whoever asked for that may have been answered already.
        """
        follower = self._followers.get(node_id)
        if follower is None or not follower.reported or follower.contact is None or node_id not in self._replicas:
            return False
        if self.isr.standing(node_id) is Standing.IN and self.isr.committed.get(node_id) == follower.incarnation:
            return False
        if max(follower.log_start, 0) < log_start:
            return False
        return follower.position(synced=self.synced) >= max(self.high_watermark, self.epoch_start)

    def decide(self, now: float, limits: LagLimits, eligible: Eligible, log_start: int = 0) -> Proposal | None:
        """Looks at every follower; the ISR that there should be, if that is another than there is. One proposal at a time.

        `log_start`: where this node's log starts.
        """
        wanted = self._other_members(now, limits, eligible, log_start)
        if wanted is None and self.lax and self.is_durable:
            wanted = self.isr.committed  # the same, for what is said with it
        if wanted is None or self.isr.proposal is not None:
            return None
        proposal = self.isr.propose(wanted)
        self._recount()
        return proposal

    def _other_members(self, now: float, limits: LagLimits, eligible: Eligible, log_start: int) -> dict[int, int] | None:
        """Than are in the committed ISR. None: it is as it should be, or nobody can say now."""
        if not self.has_followers:
            return None
        end, isr = self._own.log_end, self.isr
        if self.in_sync == len(self._replicas) and isr.proposal is None and self._held() >= end:
            self._even_at = now  # nobody is missing, and nobody is behind: as with most partitions, most of the time
            return None
        for follower in self._followers.values():
            if self._even_at is not None:
                follower.was_at_the_end(self._even_at)
            follower.observe(now, end, synced=self.synced, heard=False)
        if isr.proposal is not None:
            return None
        wanted: dict[int, int] = {}
        for node in dict.fromkeys((*self._replicas, *isr.committed)):
            if node == self.node_id:
                wanted[node] = self._incarnation
            elif self.may_join(node, log_start) and eligible(node, self._followers[node].incarnation):
                wanted[node] = self._followers[node].incarnation
            elif node in isr.committed and not self._lags(node, now, limits):
                wanted[node] = isr.committed[node]
        return wanted if wanted != isr.committed else None

    def _lags(self, node_id: int, now: float, limits: LagLimits) -> bool:
        follower = self._followers.get(node_id)
        if follower is None:
            follower = self._followers[node_id] = FollowerProgress(self.isr.committed[node_id])
            self._recount()
        return follower.lags(now, self._own.log_end, limits, synced=self.synced)

    def isr_shown(self, partition_epoch: int, in_sync: Iterable[InSync]) -> bool:
        """An answer of the controller in this leader epoch; the image will say the same."""
        return self.leading and self.isr.shown(partition_epoch, in_sync) and self._recount()

    def isr_refused(self, proposal: Proposal) -> bool:
        return self.leading and self.isr.refused(proposal) and self._recount()

    def _recount(self) -> bool:
        """Who counts has changed."""
        counted: list[MemberProgress] = []
        for node, incarnations in self.isr.maximal().items():
            follower = self._followers.get(node)
            if node == self.node_id:
                counted.append(self._own)
            elif follower is not None and follower.incarnation in incarnations:
                counted.append(follower)
            else:
                counted.append(NOTHING)
        self._counted = counted
        self._alone = counted == [self._own]
        self.in_sync = len(self.isr.committed)
        self._tell_start_watchers()
        return self._advance()

    # -- following ----------------------------------------------------------------------------------------------------

    def copied(self, log_end: int, leaders_high_watermark: int) -> bool:
        """The log ends at `log_end` as the leader has it, who told its high watermark: what is here of it is committed.

        A leader that was just elected may know less than was told here before; that stays true all the same.
        """
        self._own.log_end = log_end
        committed = min(leaders_high_watermark, log_end)
        if self.leading or committed <= self.high_watermark:
            return False
        self.high_watermark = committed
        return True

    def cut(self, log_end: int) -> None:
        """The log ends earlier now, or is about to: nothing beyond is written, durable or committed here."""
        self._own.log_end = min(self._own.log_end, log_end)
        self._own.durable = min(self._own.durable, log_end)
        self.high_watermark = min(self.high_watermark, log_end)

    def begun_anew(self, log_start: int, log_end: int) -> None:
        """The log is empty, and starts where the leader's does: what came before was committed (KAFKA-9491)."""
        self._own.log_end = self._own.durable = log_end
        self.high_watermark = log_start

    def configure(self, *, synced: bool, min_in_sync: int) -> bool:
        """The topic's configuration changed. The high watermark never goes back, whatever `durability` becomes."""
        self.synced = synced
        self.min_in_sync = min_in_sync
        return self.leading and self._advance()

    @property
    def is_durable(self) -> bool:
        """All that is committed is on the disks of the maximal ISR, and nothing else will be."""
        return self.synced and bool(self._counted) and self._held() >= self.high_watermark

    def _held(self) -> int:
        """What the whole maximal ISR has."""
        if self.synced:
            return min([member.durable for member in self._counted])
        return min([member.log_end for member in self._counted])

    def _advance(self) -> bool:
        # KIP-966: the high watermark does not advance while the ISR is smaller than the effective minimum.
        if not self.leading or self.in_sync < self.min_in_sync:
            return False
        if self._alone:
            own = self._own
            committed = own.durable if self.synced else own.log_end
        else:
            committed = self._held()
        if committed <= self.high_watermark:
            return False
        self.high_watermark = committed
        return True


def recovered_high_watermark(checkpointed: int, *, log_start: int, durable: int, synced: bool) -> int:
    """What a log that was just opened may show before anyone leads it.

    The checkpoint names topics, not topic ids: an entry may be of an earlier topic of that name. On a synced topic only what is
    durable here was ever committed, so whatever lies beyond is not of this log, or becomes visible with the first sync round.
    """
    return max(min(checkpointed, durable) if synced else checkpointed, log_start)
