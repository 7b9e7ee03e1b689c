"""Pull sessions: the positions that each follower has reported, and the changes that its leader has not sent yet.

A session belongs to one incarnation of one node. Its pulls name only what changed, so everything else is remembered here. Idle
partitions cost nothing, however many. `pending` has the partitions with changes, those first that have waited longest. A served
one goes to the end, so that no partition starves behind busier ones. See `libs/rpc/contracts/replication.py`.
"""

from collections.abc import Iterable, Sequence

from libs.rpc.contracts.replication import MadeDurable, Pull, PulledFrom
from libs.wire.errors import ErrorCode
from services.storage.core.fetch.fetch_rules import Divergence

Key = tuple[bytes, int]
FETCH_SESSION_ID_NOT_FOUND = int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
INVALID_FETCH_SESSION_EPOCH = int(ErrorCode.INVALID_FETCH_SESSION_EPOCH)


class Position:
    """A follower's position in one partition, and what the leader has sent since it was reported."""

    __slots__ = (
        "compared",
        "divergence",
        "durable",
        "error",
        "fetch_offset",
        "follower_ahead",
        "last_fetched_epoch",
        "leader_epoch",
        "log_start",
        "muted",
        "sent_high_watermark",
        "sent_log_start",
    )

    def __init__(self, named: PulledFrom) -> None:
        self.leader_epoch = named.leader_epoch
        self.fetch_offset = named.fetch_offset
        self.durable = min(named.durable_offset, named.fetch_offset)
        self.last_fetched_epoch = named.last_fetched_epoch
        self.log_start = named.log_start_offset
        self.compared = False
        """Whether the follower's log up to here is known to be the leader's."""
        self.follower_ahead = False
        """The follower's epoch is ahead of this node, which may be about to lead. The error is sent only when the wait is
        over."""
        self.error = 0
        self.divergence: Divergence | None = None
        self.muted = False
        """Batches, an error or a divergence were sent. Nothing more is sent until the follower names the partition again."""
        self.sent_high_watermark = -1
        self.sent_log_start = -1


class PullSession:
    """The session of one follower. `alive_at` is the time of its last pull, which proves that it lives. `asked` is the latest
    round that awaits the follower, `round` the latest that its pulls have named."""

    __slots__ = ("alive_at", "asked", "incarnation", "next_sequence", "node_id", "number", "pending", "positions", "round")

    def __init__(self, node_id: int, incarnation: int, number: int) -> None:
        self.node_id = node_id
        self.incarnation = incarnation
        self.number = number
        self.next_sequence = self.asked = self.round = 0
        self.alive_at = 0.0
        self.positions: dict[Key, Position] = {}
        self.pending: dict[Key, None] = {}

    def name(self, named: PulledFrom) -> Position:
        """Takes a reported position. What was sent before, in the same epoch and without an error, the follower still knows."""
        key = named.topic_id, named.partition
        position = Position(named)
        before = self.positions.get(key)
        if before is not None and before.compared and not before.error and before.leader_epoch == position.leader_epoch:
            position.sent_high_watermark = before.sent_high_watermark
            position.sent_log_start = before.sent_log_start
        self.positions[key] = position
        self.pending.setdefault(key)
        return position

    def moved(self, key: Key) -> bool:
        """Notes a change of the partition. Returns whether the follower may have to hear of it."""
        position = self.positions.get(key)
        if position is None or position.muted:
            return False
        self.pending.setdefault(key)
        return True

    def drop(self, key: Key) -> None:
        self.positions.pop(key, None)
        self.pending.pop(key, None)


class PullSessions:
    """The sessions, at most one per follower node, and the sessions that pull each partition."""

    __slots__ = ("by_node", "pulling")

    def __init__(self) -> None:
        self.by_node: dict[int, PullSession] = {}
        self.pulling: dict[Key, dict[int, PullSession]] = {}

    def take(self, pull: Pull) -> PullSession | int:
        """The session of a pull, new or continued; or an error for the call. Positions stay as they are."""
        session = self.by_node.get(pull.node_id)
        if pull.sequence == 0:
            if session is not None:
                if (session.incarnation, session.number) >= (pull.incarnation, pull.session):
                    return INVALID_FETCH_SESSION_EPOCH
                self.end(session)
            session = self.by_node[pull.node_id] = PullSession(pull.node_id, pull.incarnation, pull.session)
        elif session is None or (session.incarnation, session.number) != (pull.incarnation, pull.session):
            return FETCH_SESSION_ID_NOT_FOUND
        elif pull.sequence != session.next_sequence:
            return INVALID_FETCH_SESSION_EPOCH
        session.next_sequence = pull.sequence + 1
        return session

    def name(self, session: PullSession, named: PulledFrom) -> Position:
        self.pulling.setdefault((named.topic_id, named.partition), {})[session.node_id] = session
        return session.name(named)

    def made_durable(self, node_id: int, incarnation: int, made: MadeDurable) -> None:
        """Takes progress that came before this node leads. It counts once the follower's position counts."""
        session = self.by_node.get(node_id)
        position = session.positions.get((made.topic_id, made.partition)) if session is not None else None
        if session is None or session.incarnation != incarnation or position is None:
            return
        if not position.compared and position.leader_epoch == made.leader_epoch:
            position.durable = max(position.durable, min(made.durable_offset, position.fetch_offset))

    def drop(self, session: PullSession, keys: Iterable[Key]) -> None:
        for key in keys:
            session.drop(key)
            self._forget(key, session)

    def end(self, session: PullSession) -> None:
        self.drop(session, list(session.positions))
        if self.by_node.get(session.node_id) is session:
            del self.by_node[session.node_id]

    def on(self, key: Key) -> Sequence[PullSession]:
        """The sessions that pull the partition, in order of their arrival."""
        return tuple(self.pulling.get(key, {}).values())

    def all_follow(self, key: Key, nodes: Iterable[int], leader_epoch: int, *, since_round: int) -> bool:
        """Whether each of these nodes pulled the partition in this leader epoch, in a pull that it sent after the round began.

        A node that has led in a later epoch, or has heard of one, has dropped the partition by then, or named it in that epoch.
        """
        pulling = self.pulling.get(key, {})
        for node in nodes:
            session = pulling.get(node)
            if session is None or session.round < since_round or session.positions[key].leader_epoch != leader_epoch:
                return False
        return True

    def _forget(self, key: Key, session: PullSession) -> None:
        pulling = self.pulling.get(key)
        if pulling is not None and pulling.get(session.node_id) is session:
            del pulling[session.node_id]
            if not pulling:
                del self.pulling[key]
