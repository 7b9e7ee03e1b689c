"""ISR membership of one partition as its leader tracks it: committed, proposed, and settled by answers.

Only the elected controller changes an ISR, by compare-and-set on (leader epoch, partition epoch). A leader proposes one change at
a time, and keeps both sides of it until the change is settled. Committed ∪ proposed is the *maximal* ISR, by which the high
watermark goes. A joining replica counts as soon as it is proposed, since the controller may have let it in already. A leaving one
counts until it is known to be out. A missing answer changes nothing.

A proposal is made on a partition epoch. A state with a later epoch settles it, applied or not.
"""

from collections.abc import Iterable, Mapping
from enum import Enum

from libs.cluster.records import InSync
from libs.lean_dataclass import dataclass


class Standing(Enum):
    OUT = "out"
    JOINING = "joining"
    IN = "in"
    LEAVING = "leaving"


class Event(Enum):
    PROPOSED_IN = "we propose that it is in"
    PROPOSED_OUT = "we propose that it is out"
    SHOWN_IN = "a later state has it"
    SHOWN_OUT = "a later state does not have it"
    REFUSED = "the controller refused what we proposed"


TRANSITIONS: dict[tuple[Standing, Event], Standing] = {
    (Standing.OUT, Event.PROPOSED_IN): Standing.JOINING,
    (Standing.OUT, Event.SHOWN_IN): Standing.IN,
    (Standing.OUT, Event.SHOWN_OUT): Standing.OUT,
    (Standing.JOINING, Event.SHOWN_IN): Standing.IN,
    (Standing.JOINING, Event.SHOWN_OUT): Standing.OUT,
    (Standing.JOINING, Event.REFUSED): Standing.OUT,
    (Standing.IN, Event.PROPOSED_IN): Standing.IN,
    (Standing.IN, Event.PROPOSED_OUT): Standing.LEAVING,
    (Standing.IN, Event.SHOWN_IN): Standing.IN,
    (Standing.IN, Event.SHOWN_OUT): Standing.OUT,
    (Standing.IN, Event.REFUSED): Standing.IN,
    (Standing.LEAVING, Event.SHOWN_IN): Standing.IN,
    (Standing.LEAVING, Event.SHOWN_OUT): Standing.OUT,
    (Standing.LEAVING, Event.REFUSED): Standing.IN,
}
"""`PROPOSED_IN` of a member that is in: it restarted, caught up, and the ISR shall name its new incarnation."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """The ISR that a leader asks for. It may be sent any number of times, but is applied once."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[InSync, ...]


class InSyncReplicas:
    """The ISR in one leader epoch. `shown` takes every state of this epoch, from images and from answers alike."""

    __slots__ = ("_standing", "committed", "leader_epoch", "partition_epoch", "proposal")

    def __init__(self, leader_epoch: int) -> None:
        self.leader_epoch = leader_epoch
        self.partition_epoch = -1
        self.committed: dict[int, int] = {}
        """Node → the incarnation in which it is in sync."""
        self.proposal: Proposal | None = None
        self._standing: dict[int, Standing] = {}

    def standing(self, node_id: int) -> Standing:
        return self._standing.get(node_id, Standing.OUT)

    def maximal(self) -> dict[int, tuple[int, ...]]:
        """All members that count for the high watermark, with the incarnations whose reports count."""
        counted: dict[int, tuple[int, ...]] = {node: (incarnation,) for node, incarnation in self.committed.items()}
        if self.proposal is not None:
            for node, incarnation in self.proposal.isr:
                known = counted.get(node, ())
                counted[node] = known if incarnation in known else (*known, incarnation)
        return counted

    def shown(self, partition_epoch: int, isr: Iterable[InSync]) -> bool:
        """Takes a state of the partition. False: it is not newer, and a pending proposal may still be applied."""
        if partition_epoch <= self.partition_epoch:
            return False
        before = {*self.committed, *self._standing}
        self.partition_epoch = partition_epoch
        self.committed = {member.node_id: member.incarnation for member in isr}
        self.proposal = None
        for node in sorted(before | self.committed.keys()):
            self._happened(node, Event.SHOWN_IN if node in self.committed else Event.SHOWN_OUT)
        return True

    def propose(self, isr: Mapping[int, int]) -> Proposal:
        """Makes a proposal. There must be none: see `proposal`."""
        if self.proposal is not None:
            raise RuntimeError("a proposal is pending")
        for node, incarnation in isr.items():
            if self.committed.get(node) != incarnation:
                self._happened(node, Event.PROPOSED_IN)
        for node in self.committed:
            if node not in isr:
                self._happened(node, Event.PROPOSED_OUT)
        members = tuple([InSync(node, incarnation) for node, incarnation in isr.items()])
        self.proposal = Proposal(self.leader_epoch, self.partition_epoch, members)
        return self.proposal

    def refused(self, proposal: Proposal) -> bool:
        """Takes back a proposal that the controller refused as a whole. False: a state has settled it before."""
        if proposal is not self.proposal:
            return False
        self.proposal = None
        for node, standing in list(self._standing.items()):
            if (standing, Event.REFUSED) in TRANSITIONS:
                self._happened(node, Event.REFUSED)
        return True

    def _happened(self, node: int, event: Event) -> None:
        standing = TRANSITIONS[self.standing(node), event]
        if standing is Standing.OUT:
            self._standing.pop(node, None)
        else:
            self._standing[node] = standing
