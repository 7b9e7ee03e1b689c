"""One replica of one partition as its leader sees it: who is in sync, how far each has come, and what is committed.

Three numbers per replica, never mixed up: the log end (next offset to write), the durable offset (all before it survive a power
cut here) and the high watermark (all before it are committed, so consumers may read them).

On a `synced` topic the high watermark is the smallest *durable* offset over the in-sync replicas, leader included; on a
`replicated` topic it is their smallest log end, which is Kafka's usual meaning (DESIGN section 7, Durability).
"""

from collections.abc import Iterable


class MemberProgress:
    """How far one in-sync replica has come. The leader's own entry is one of them."""

    __slots__ = ("durable", "log_end")

    def __init__(self, durable: int, log_end: int) -> None:
        self.durable = durable
        self.log_end = log_end


class Replica:
    """The numbers of a partition on this node. A method that can raise the high watermark tells whether it did."""

    __slots__ = (
        "_alone",
        "_members",
        "_own",
        "high_watermark",
        "in_sync",
        "leader_epoch",
        "leading",
        "min_in_sync",
        "node_id",
        "synced",
    )

    def __init__(self, node_id: int, *, log_end: int, durable: int, high_watermark: int, synced: bool) -> None:
        self.node_id = node_id
        self.synced = synced
        self.min_in_sync = 1
        self.leading = False
        self.leader_epoch = -1
        self.high_watermark = min(high_watermark, log_end)
        self.in_sync = 0
        self._own = MemberProgress(durable, log_end)
        self._members: dict[int, MemberProgress] = {}
        self._alone = True

    @property
    def log_end(self) -> int:
        return self._own.log_end

    @property
    def durable(self) -> int:
        return self._own.durable

    # -- leadership ---------------------------------------------------------------------------------------------------

    def lead(self, leader_epoch: int, in_sync: Iterable[int]) -> bool:
        """Start to lead in this epoch, or go on with another ISR. A new member counts from nothing until it reports."""
        if leader_epoch < self.leader_epoch:
            raise ValueError(f"leader epoch {leader_epoch} is behind {self.leader_epoch}")
        known = self._members if leader_epoch == self.leader_epoch and self.leading else {}
        self._members = {node: known.get(node) or MemberProgress(0, 0) for node in in_sync if node != self.node_id}
        self._members[self.node_id] = self._own
        self._alone = len(self._members) == 1
        self.in_sync = len(self._members)
        self.leader_epoch = leader_epoch
        self.leading = True
        return self._advance()

    def resign(self, leader_epoch: int) -> None:
        """Lead no longer. The high watermark stays: what was committed stays readable to the next leader."""
        self.leading = False
        self.leader_epoch = max(self.leader_epoch, leader_epoch)
        self._members = {}
        self.in_sync = 0

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

    def member_progress(self, node_id: int, *, durable: int, log_end: int) -> bool:
        """An in-sync follower reported. Reports of nodes outside the ISR do not count here."""
        member = self._members.get(node_id)
        if member is None or member is self._own:
            return False
        member.durable = max(member.durable, durable)
        member.log_end = max(member.log_end, log_end)
        return self._advance()

    def configure(self, *, synced: bool, min_in_sync: int) -> bool:
        """The topic's configuration changed. The high watermark never goes back, whatever `durability` becomes."""
        self.synced = synced
        self.min_in_sync = min_in_sync
        return self.leading and self._advance()

    def _advance(self) -> bool:
        # KIP-966: the high watermark does not advance while the ISR is smaller than the effective minimum.
        if not self.leading or self.in_sync < self.min_in_sync:
            return False
        if self._alone:
            own = self._own
            committed = own.durable if self.synced else own.log_end
        elif self.synced:
            committed = min(member.durable for member in self._members.values())
        else:
            committed = min(member.log_end for member in self._members.values())
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
