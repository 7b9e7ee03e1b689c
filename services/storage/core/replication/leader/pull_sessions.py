"""Pull sessions: what each follower has said about where it stands, and what this leader has not told it yet.

A session belongs to one incarnation of one node. Its pulls name only what changed, so everything else is remembered here; idle
partitions cost nothing, however many. `news` are the partitions that may have something to tell, those first that have waited
longest: who was served goes to the end, so that no partition starves behind busier ones. See
`libs/rpc/contracts/replication.py`.
"""

from collections.abc import Iterable, Sequence

from libs.rpc.contracts.replication import MadeDurable, Pull, PulledFrom
from libs.wire.errors import ErrorCode
from services.storage.core.fetch_rules import Divergence

Key = tuple[bytes, int]
UNKNOWN_SESSION = int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
OUT_OF_STEP = int(ErrorCode.INVALID_FETCH_SESSION_EPOCH)


class Position:
    """Where the follower stands in one partition, and what it was told since it said so."""

    __slots__ = (
        "compared",
        "divergence",
        "durable",
        "early",
        "error",
        "fetch_offset",
        "last_fetched_epoch",
        "leader_epoch",
        "log_start",
        "muted",
        "told_high_watermark",
        "told_log_start",
    )

    def __init__(self, named: PulledFrom) -> None:
        self.leader_epoch = named.leader_epoch
        self.fetch_offset = named.fetch_offset
        self.durable = min(named.durable_offset, named.fetch_offset)
        self.last_fetched_epoch = named.last_fetched_epoch
        self.log_start = named.log_start_offset
        self.compared = False
        """Its log up to here was found to be the leader's."""
        self.early = False
        """The follower is ahead of this node, which may be about to lead: the error is told only when the wait is over."""
        self.error = 0
        self.divergence: Divergence | None = None
        self.muted = False
        """It was told batches, an error or a divergence: it hears no more until it is named again."""
        self.told_high_watermark = -1
        self.told_log_start = -1


class PullSession:
    """Of one follower. `alive_at`: when it last pulled, which proves that it lives for all of its partitions."""

    __slots__ = ("alive_at", "incarnation", "news", "next_sequence", "node_id", "number", "positions")

    def __init__(self, node_id: int, incarnation: int, number: int) -> None:
        self.node_id = node_id
        self.incarnation = incarnation
        self.number = number
        self.next_sequence = 0
        self.alive_at = 0.0
        self.positions: dict[Key, Position] = {}
        self.news: dict[Key, None] = {}

    def name(self, named: PulledFrom) -> Position:
        """It says where it stands. What it was told before, in the same epoch and without an error, it still knows."""
        key = named.topic_id, named.partition
        position = Position(named)
        before = self.positions.get(key)
        if before is not None and before.compared and not before.error and before.leader_epoch == position.leader_epoch:
            position.told_high_watermark = before.told_high_watermark
            position.told_log_start = before.told_log_start
        self.positions[key] = position
        self.news.setdefault(key)
        return position

    def moved(self, key: Key) -> bool:
        """Something happened in the partition. Whether the follower may have to hear of it."""
        position = self.positions.get(key)
        if position is None or position.muted:
            return False
        self.news.setdefault(key)
        return True

    def drop(self, key: Key) -> None:
        self.positions.pop(key, None)
        self.news.pop(key, None)


class PullSessions:
    """At most one per follower node, and who pulls which partition."""

    __slots__ = ("by_node", "pulling")

    def __init__(self) -> None:
        self.by_node: dict[int, PullSession] = {}
        self.pulling: dict[Key, dict[int, PullSession]] = {}

    def take(self, pull: Pull) -> PullSession | int:
        """The session that the pull belongs to, begun or gone on with; or the call's error. Positions are left as they are."""
        session = self.by_node.get(pull.node_id)
        if pull.sequence == 0:
            if session is not None:
                if (session.incarnation, session.number) >= (pull.incarnation, pull.session):
                    return OUT_OF_STEP
                self.end(session)
            session = self.by_node[pull.node_id] = PullSession(pull.node_id, pull.incarnation, pull.session)
        elif session is None or (session.incarnation, session.number) != (pull.incarnation, pull.session):
            return UNKNOWN_SESSION
        elif pull.sequence != session.next_sequence:
            return OUT_OF_STEP
        session.next_sequence = pull.sequence + 1
        return session

    def name(self, session: PullSession, named: PulledFrom) -> Position:
        self.pulling.setdefault((named.topic_id, named.partition), {})[session.node_id] = session
        return session.name(named)

    def made_durable(self, node_id: int, incarnation: int, made: MadeDurable) -> None:
        """This node may not lead yet. What is told then counts when the follower's position does."""
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
        """Those that pull the partition, by node id as they came."""
        return tuple(self.pulling.get(key, {}).values())

    def _forget(self, key: Key, session: PullSession) -> None:
        pulling = self.pulling.get(key)
        if pulling is not None and pulling.get(session.node_id) is session:
            del pulling[session.node_id]
            if not pulling:
                del self.pulling[key]
