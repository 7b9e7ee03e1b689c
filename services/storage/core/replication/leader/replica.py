"""One replica of one partition as its leader sees it: the ISR, each member's progress, and what is committed.

A replica has three numbers, never mixed up. All records before the durable offset survive a power cut on that node. All records
before the high watermark are committed, so consumers may read them. The log end is the next offset to write.

On a `synced` topic the high watermark is the smallest *durable* offset over the in-sync replicas, leader included. On a
`replicated` topic it is their smallest log end, which is Kafka's usual meaning.
"""

from collections.abc import Callable, Iterable

from libs.cluster.records import InSync
from services.storage.core.effects import (
    FOLLOWER_MAY_JOIN,
    HIGH_WATERMARK_ROSE,
    ISR_CHANGED,
    LEAST_LOG_START_MOVED,
    LOG_START_ROSE,
)
from services.storage.core.replication.leader.follower_progress import (
    NOTHING,
    Contact,
    FollowerProgress,
    LagLimits,
    MemberProgress,
)
from services.storage.core.replication.leader.in_sync import InSyncReplicas, Proposal, Standing
from services.storage.core.replication.leadership import Lead

Eligible = Callable[[int, int], bool]
"""(node id, incarnation) → whether that incarnation lives, and is not stopping."""


class Replica:
    """The numbers of a partition on this node. Changes are noted as effects (`effects.py`)."""

    __slots__ = (
        "_all_caught_up_at",
        "_counted",
        "_effects",
        "_followers",
        "_incarnation",
        "_only_member",
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
        "on_effects",
        "raised_by",
        "reported_isr",
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
        """The log end when this node began to lead."""
        self.high_watermark = max(0, min(high_watermark, log_end))
        self.in_sync = 0
        """The size of the committed ISR; admission goes by it."""
        self.has_followers = False
        """This node leads, and there are other replicas, in or out of the ISR."""
        self.isr = InSyncReplicas(-1)
        self.reported_isr: dict[int, int] = {}
        """The committed ISR of this leader epoch that logs and metrics know: `report_isr` takes the newest."""
        self.lax = False
        """This node leads, and the state says that acknowledged records may be in page caches only."""
        self.start_watchers: list[Callable[[], None]] = []
        """Called whenever `least_start` may have risen, or this node leads no longer."""
        self.raised_by = -1
        """The replica whose progress raised the high watermark last. -1: another ISR did."""
        self.on_effects: Callable[[], None] = _no_listener
        """Called for the first effect after `take_effects`."""
        self._effects = 0
        self._own = MemberProgress(durable, log_end)
        self._incarnation = -1
        self._replicas: tuple[int, ...] = ()
        self._followers: dict[int, FollowerProgress] = {}
        self._counted: list[MemberProgress] = []  # the progress of the maximal ISR
        self._only_member = True
        self._all_caught_up_at: float | None = None
        """The last known moment when no follower was behind."""

    @property
    def log_end(self) -> int:
        return self._own.log_end

    @property
    def durable(self) -> int:
        return self._own.durable

    def take_effects(self) -> int:
        """The effects that were noted since the last call."""
        effects, self._effects = self._effects, 0
        return effects

    def _note(self, effect: int) -> None:
        noted = self._effects
        self._effects = noted | effect
        if not noted:
            self.on_effects()

    # -- leadership ---------------------------------------------------------------------------------------------------

    def become_leader(self, role: Lead) -> None:
        """Begins to lead in this epoch, or takes another state of it. In a new epoch every follower counts from nothing."""
        if role.leader_epoch < self.leader_epoch:
            raise ValueError(f"leader epoch {role.leader_epoch} is behind {self.leader_epoch}")
        begins = not self.leading or role.leader_epoch > self.leader_epoch
        if begins:
            self.leader_epoch = role.leader_epoch
            self.leading = True
            self.epoch_start = self._own.log_end
            self.isr = InSyncReplicas(role.leader_epoch)
            self._followers = {}
            self._all_caught_up_at = None
        self._incarnation = role.incarnation
        self._replicas = role.replicas
        self.lax = role.lax
        self.has_followers = any(node != self.node_id for node in role.replicas)
        self.isr.shown(role.partition_epoch, role.in_sync)
        if begins:
            self.reported_isr = self.isr.committed
        self._note_isr()
        self._recount()

    def become_follower(self, leader_epoch: int) -> None:
        """Ends leadership. The high watermark stays: what was committed stays readable to the next leader."""
        self.leading = False
        self.leader_epoch = max(self.leader_epoch, leader_epoch)
        self.has_followers = self.lax = False
        self.isr = InSyncReplicas(-1)
        self._followers = {}
        self._counted = []
        self.in_sync = 0
        self._note_least_start()

    # -- progress -----------------------------------------------------------------------------------------------------

    def appended(self, log_end: int) -> None:
        """The leader's own log grew to `log_end`."""
        self._own.log_end = log_end
        if not self.synced:
            self._advance_high_watermark(self.node_id)

    def synced_to(self, durable: int) -> None:
        """A sync round made everything before `durable` survive a power cut on this node."""
        if durable > self._own.durable:
            self._own.durable = durable
        if self.synced:
            self._advance_high_watermark(self.node_id)

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
        own_start: int = 0,
    ) -> None:
        """Takes a follower's position, after its log up to there was found to agree with the leader's. It may have gone back.

        `log_start` is where the follower's log begins, `own_start` where this node's does.
        """
        follower = self._follower(node_id, incarnation)
        if follower is None:
            return
        follower.log_end = min(log_end, self._own.log_end)
        follower.durable = min(durable, follower.log_end)
        follower.reported = True
        follower.contact = contact
        self._starts_at(follower, log_start)  # a log that was set aside begins earlier again
        self._progressed(node_id, follower, now, own_start)

    def made_durable(
        self, node_id: int, incarnation: int, durable: int, now: float, log_start: int = -1, own_start: int = 0
    ) -> None:
        """Takes a follower's durable offset after a sync round, or its new log start.

        It does not count before the logs were compared in this epoch: the follower's log may hold what another leader wrote.
        """
        follower = self._followers.get(node_id)
        if not self.leading or follower is None or not follower.reported or follower.incarnation != incarnation:
            return
        follower.durable = max(follower.durable, min(durable, self._own.log_end))
        follower.log_end = max(follower.log_end, follower.durable)
        self._starts_at(follower, max(follower.log_start, log_start))
        self._progressed(node_id, follower, now, own_start)

    def least_start(self, own: int) -> int:
        """The earliest log start over the maximal ISR, with `own` for this node's. -1 while one member has not reported."""
        others = [
            member.log_start if isinstance(member, FollowerProgress) else -1
            for member in self._counted
            if member is not self._own
        ]
        return min([own, *others])

    def _starts_at(self, follower: FollowerProgress, log_start: int) -> None:
        if log_start != follower.log_start:
            follower.log_start = log_start
            self._note_least_start()

    def _note_least_start(self) -> None:
        if self.start_watchers:
            self._note(LEAST_LOG_START_MOVED)

    def wake_start_watchers(self) -> None:
        for watcher in tuple(self.start_watchers):
            watcher()

    def log_start_rose(self) -> None:
        """Notes that the log of this node begins later, also on its disk."""
        self._note(LOG_START_ROSE)

    def follower_left(self, node_id: int) -> None:
        """The follower pulls this partition no longer, for now. What it reported before does not let it join the ISR."""
        follower = self._followers.get(node_id)
        if follower is not None:
            follower.contact = None

    def _follower(self, node_id: int, incarnation: int) -> FollowerProgress | None:
        """The progress of a reporting follower. None: it does not count, or a later incarnation of it has reported."""
        if not self.leading or node_id == self.node_id:
            return None
        follower = self._followers.get(node_id)
        if follower is not None and follower.incarnation > incarnation:
            return None
        if follower is None or follower.incarnation < incarnation:
            follower = self._followers[node_id] = FollowerProgress(incarnation, follower.caught_up_at if follower else None)
            self._recount()
        return follower

    def _progressed(self, node_id: int, follower: FollowerProgress, now: float, own_start: int) -> None:
        follower.observe(now, self._own.log_end, synced=self.synced, reported_now=True)
        self._advance_high_watermark(node_id)
        if self.may_join(node_id, own_start):
            self._note(FOLLOWER_MAY_JOIN)

    def followers_shown(self, now: float) -> dict[str, dict[str, object]]:
        """For the admin port: each other replica, by node id, as this leader knows it."""
        shown: dict[str, dict[str, object]] = {}
        for node in (node for node in self._replicas if self.leading and node != self.node_id):
            follower = self._followers.get(node)
            shown[str(node)] = {"in_sync": node in self.isr.committed, "reported": False}
            if follower is not None:
                shown[str(node)] |= follower.shown(now, self._own.log_end)
        return shown

    @property
    def followers(self) -> tuple[int, ...]:
        """The other replicas, in or out of the ISR."""
        return tuple([node for node in self._replicas if node != self.node_id])

    @property
    def maximal_followers(self) -> list[int]:
        """The other members of the maximal ISR: only they can be elected. Empty if this node is alone in it."""
        if self._only_member:
            return []
        members = self.isr.committed if self.isr.proposal is None else self.isr.maximal()
        return [node for node in members if node != self.node_id]

    # -- the ISR ------------------------------------------------------------------------------------------------------

    @property
    def missing(self) -> int:
        """Replicas out of sync, of a partition that this node leads."""
        return len(self._replicas) - self.in_sync if self.leading else 0

    def caught_up_followers(self, offset: int) -> list[tuple[int, int]]:
        """In-sync followers that have all records before `offset`, with their log ends."""
        followers = []
        for node_id, incarnation in self.isr.committed.items():
            follower = self._followers.get(node_id)
            if follower is not None and follower.reported and follower.incarnation == incarnation and follower.log_end >= offset:
                followers.append((node_id, follower.log_end))
        return followers

    def may_join(self, node_id: int, log_start: int = 0) -> bool:
        """Whether a follower outside the ISR has all that is committed, and all from before this epoch, as a future leader must.

        It also must not hold on disk what was deleted before `log_start`: the deletion may have been answered already.
        """
        follower = self._followers.get(node_id)
        if follower is None or not follower.reported or follower.contact is None or node_id not in self._replicas:
            return False
        if self.isr.standing(node_id) is Standing.IN and self.isr.committed.get(node_id) == follower.incarnation:
            return False
        if max(follower.log_start, 0) < log_start:
            return False
        return follower.position(synced=self.synced) >= self._committed_at_most

    def decide(self, now: float, limits: LagLimits, eligible: Eligible, log_start: int = 0) -> Proposal | None:
        """The ISR to propose, after a look at every follower. None if it is as it should be, or a proposal is pending.

        `log_start` is where this node's log starts.
        """
        wanted = self._desired_members(now, limits, eligible, log_start)
        if wanted is None and self.lax and self.is_durable:
            wanted = self.isr.committed  # the same ISR, sent for `is_durable`
        if wanted is None or self.isr.proposal is not None:
            return None
        proposal = self.isr.propose(wanted)
        self._recount()
        return proposal

    def _desired_members(self, now: float, limits: LagLimits, eligible: Eligible, log_start: int) -> dict[int, int] | None:
        """The members that the ISR should have. None: those it has, or nobody can say now."""
        if not self.has_followers:
            return None
        end, isr = self._own.log_end, self.isr
        if self.in_sync == len(self._replicas) and isr.proposal is None and self._acknowledged_by_all() >= end:
            self._all_caught_up_at = now  # no follower is missing or behind, as in most partitions most of the time
            return None
        for follower in self._followers.values():
            if self._all_caught_up_at is not None:
                follower.was_at_the_end(self._all_caught_up_at)
            follower.observe(now, end, synced=self.synced, reported_now=False)
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

    def isr_shown(self, partition_epoch: int, in_sync: Iterable[InSync]) -> None:
        """Takes an answer of the controller in this leader epoch. The image will say the same."""
        if self.leading and self.isr.shown(partition_epoch, in_sync):
            self._note_isr()
            self._recount()

    def _note_isr(self) -> None:
        if self.isr.committed.keys() != self.reported_isr.keys():
            self._note(ISR_CHANGED)

    def isr_refused(self, proposal: Proposal) -> None:
        if self.leading and self.isr.refused(proposal):
            self._recount()

    def _recount(self) -> None:
        """Counts anew, after the members that count have changed."""
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
        self._only_member = counted == [self._own]
        self.in_sync = len(self.isr.committed)
        self._note_least_start()
        self._advance_high_watermark()

    # -- following ----------------------------------------------------------------------------------------------------

    def copied(self, log_end: int, leaders_high_watermark: int) -> None:
        """Takes the leader's high watermark. The log up to `log_end` is the leader's, and what is here of the committed part is
        committed.

        A leader that was just elected may know a lower one than the replica knew before; the replica's stays.
        """
        self._own.log_end = log_end
        committed = min(leaders_high_watermark, log_end)
        if not self.leading and committed > self.high_watermark:
            self.high_watermark = committed
            self._note(HIGH_WATERMARK_ROSE)

    def truncated_to(self, log_end: int) -> None:
        """Lowers the numbers for a truncation, done or about to be. Nothing beyond `log_end` is written, durable or committed
        here."""
        self._own.log_end = min(self._own.log_end, log_end)
        self._own.durable = min(self._own.durable, log_end)
        self.high_watermark = min(self.high_watermark, log_end)

    def truncated_fully(self, log_start: int, log_end: int) -> None:
        """Sets the numbers of an empty log that starts where the leader's does. What came before was committed (KAFKA-9491)."""
        self._own.log_end = self._own.durable = log_end
        self.high_watermark = log_start

    def configure(self, *, synced: bool, min_in_sync: int) -> None:
        """Takes a changed configuration. The high watermark never goes back, whatever `durability` becomes."""
        self.synced = synced
        self.min_in_sync = min_in_sync
        self._advance_high_watermark()

    @property
    def is_durable(self) -> bool:
        """Whether all that is committed is on the disks of the maximal ISR, and will always be."""
        return self.synced and bool(self._counted) and self._acknowledged_by_all() >= self._committed_at_most

    @property
    def _committed_at_most(self) -> int:
        """The end of what may be committed: an earlier leader may have committed all that this log had when the epoch began."""
        return max(self.high_watermark, self.epoch_start)

    def _acknowledged_by_all(self) -> int:
        """The offset that the whole maximal ISR has reached."""
        if self.synced:
            return min([member.durable for member in self._counted])
        return min([member.log_end for member in self._counted])

    def _advance_high_watermark(self, progressed: int = -1) -> None:
        """`progressed`: the replica that has made progress; -1: none."""
        # KIP-966: the high watermark does not advance while the ISR is smaller than the effective minimum.
        if not self.leading or self.in_sync < self.min_in_sync:
            return
        if self._only_member:
            own = self._own
            committed = own.durable if self.synced else own.log_end
        else:
            committed = self._acknowledged_by_all()
        if committed > self.high_watermark:
            self.high_watermark = committed
            self.raised_by = progressed
            self._note(HIGH_WATERMARK_ROSE)


def _no_listener() -> None:
    """The listener until a partition is opened around the replica: effects wait."""


def recovered_high_watermark(checkpointed: int, *, log_start: int, durable: int, synced: bool) -> int:
    """The high watermark that a log may show after its opening, before anyone leads it.

    The checkpoint names topics, not topic ids, so an entry may be of an earlier topic of that name. On a synced topic only
    durable records were ever committed. So what lies beyond is not of this log, or becomes visible with the first sync round.
    """
    return max(min(checkpointed, durable) if synced else checkpointed, log_start)
