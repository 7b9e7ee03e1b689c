"""The health of a cluster: a verdict, one sentence, and what stands behind them. Pure: it is read from the cluster image.

*Healthy*: every replica is in sync, and every node that holds one lives. *Degraded*: something is missing, such as replicas, a
controller, or so many replicas that acks=all is refused. *Offline*: some partition has no leader. *Unknown*: nobody can tell.

The sentence also names what is slow. That never changes the verdict: nothing is missing, and who waits for a healthy cluster
before the next restart would wait for what no restart makes worse.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import field, replace
from enum import Enum
from typing import Final

from libs.cluster.client_quotas import SHARED, has_limits
from libs.cluster.configs.resolve import MIN_IN_SYNC, default_min_in_sync, effective_topic_config
from libs.cluster.image import ClusterImage
from libs.cluster.lost_directories import way_out
from libs.cluster.records import (
    CONTROLLER,
    GATEWAY,
    GROUP_COORDINATOR,
    QUOTA_MANAGER,
    STORAGE,
    TRANSACTION_COORDINATOR,
    Member,
    PartitionState,
)
from libs.lean_dataclass import dataclass

SHOWN_MAX: Final = 20
"""The most partitions that are named for each fault, and the most groups and transactions that take too long."""
NAMED_MAX: Final = 3
"""The most partitions that the sentence names for a fault."""
REBALANCE: Final = "rebalance"
TRANSACTION: Final = "transaction"
MARKERS: Final = "transaction markers"
REFUSED_CLIENTS: Final = "refused clients"
UNENFORCED_ACLS: Final = "unenforced acls"
UNKNOWN_ACLS: Final = "unknown acls"
DIFFERENT_AUTHORIZERS: Final = "different authorizers"
_TAKES_LONG: Final = {
    REBALANCE: ("group", "has been rebalancing"),
    TRANSACTION: ("transaction", "has been open past its timeout"),
    MARKERS: ("transaction", "has been waiting for its markers"),
    REFUSED_CLIENTS: ("gateway", "has been refusing clients beyond max.connections"),
    UNENFORCED_ACLS: ("gateway", "has no authorizer and has ignored the stored ACLs"),
    UNKNOWN_ACLS: ("gateway", "has ignored ACLs of kinds that a later version knows"),
    DIFFERENT_AUTHORIZERS: ("gateway", "has had other settings of the authorizer than another gateway"),
}


class Verdict(Enum):
    HEALTHY = "healthy"
    DEGRADED = "degraded"
    OFFLINE = "offline"
    UNKNOWN = "unknown"
    """This process has not read the metadata yet, or what it read may be old."""


@dataclass(frozen=True)
class Faults:
    """What is wrong. Partitions as `topic-index`, nodes by id."""

    offline: tuple[str, ...] = ()
    """Partitions without a leader."""
    under_min_isr: tuple[str, ...] = ()
    """Partitions that have a leader, and refuse acks=all."""
    under_replicated: tuple[str, ...] = ()
    """Partitions with replicas that are not in sync, besides those that a reassignment adds."""
    behind: tuple[int, ...] = ()
    """Storage nodes with replicas that are not in sync, besides those that a reassignment adds."""
    away: tuple[int, ...] = ()
    """Storage nodes that hold replicas and are not there."""
    failed_directories: Mapping[int, int] = field(default_factory=dict)
    """By storage node, the number of its log directories that do not work."""
    full_directories: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """By storage node, the paths of its log directories that refuse appends, since they are full."""
    roles_away: tuple[str, ...] = ()
    """The roles of which no process is there: gateway, controller, group coordinator, transaction coordinator; quota manager, if
    there are quotas."""
    slow_followers: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """By storage node that holds up acks=all again and again, the leaders that wait for it. It is in sync: the verdict stays."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why a partition is offline, and what to do, for the first `SHOWN_MAX`."""
    store_trouble: str = ""
    """What is wrong with the metadata store, in words. The image does not show it."""

    @property
    def only_full(self) -> bool:
        """Whether full log directories are all that is wrong, with replicas behind on their nodes only."""
        nodes = (self.away, self.failed_directories, self.roles_away)
        others = (self.offline, self.under_min_isr, *nodes, self.store_trouble)
        return bool(self.full_directories) and not any(others) and set(self.behind) <= self.full_directories.keys()


@dataclass(frozen=True, slots=True)
class LongRunning:
    """What takes longer than it may, of a group, a transaction or a gateway. It is no fault of the cluster, and never changes the
    verdict."""

    kind: str
    """REBALANCE, TRANSACTION, MARKERS, REFUSED_CLIENTS, UNENFORCED_ACLS, UNKNOWN_ACLS,
    DIFFERENT_AUTHORIZERS, or a word of a newer version."""
    name: str
    since_ms: int
    """Wall time."""


@dataclass(frozen=True)
class Health:
    verdict: Verdict
    sentence: str
    faults: Faults
    moving: int
    """Partitions that a reassignment moves. That is no fault."""
    leaders: Mapping[int, int]
    """By storage node, the number of partitions that it leads."""
    since_ms: int | None = None
    """The wall time from which the verdict is this one. None: nobody has seen it change."""
    long_running: Sequence[LongRunning] = ()
    """The longest first, at most `SHOWN_MAX`. Only controllers know of them."""

    def as_json(self) -> dict[str, object]:
        """For `/health` and tools. Lists of partitions are cut after `SHOWN_MAX`; `counts` has the whole numbers."""
        faults = self.faults
        partitions = {
            "offline": faults.offline,
            "under_min_isr": faults.under_min_isr,
            "under_replicated": faults.under_replicated,
        }
        return {
            "verdict": self.verdict.value,
            "sentence": self.sentence,
            "since_ms": self.since_ms,
            "counts": {name: len(those) for name, those in partitions.items()},
            "partitions": {name: list(those[:SHOWN_MAX]) for name, those in partitions.items()},
            "reasons": dict(faults.reasons),
            "storage_nodes_away": list(faults.away),
            "failed_directories": {str(node_id): count for node_id, count in faults.failed_directories.items()},
            "only_full": faults.only_full,
            "full_directories": {str(node_id): list(paths) for node_id, paths in faults.full_directories.items()},
            "slow_followers": {str(node_id): list(leaders) for node_id, leaders in faults.slow_followers.items()},
            "roles_away": list(faults.roles_away),
            "moving": self.moving,
            "leaders": {str(node_id): count for node_id, count in self.leaders.items()},
            "long_running": [
                {"kind": each.kind, "name": each.name, "since_ms": each.since_ms} for each in self.long_running[:SHOWN_MAX]
            ],
        }


def health_of(image: ClusterImage, *, current: bool = True) -> Health:
    """`current`: whether this process has its lease in the metadata store. Without the store nobody learns of deaths."""
    health = _health_of(image)
    return health if current or health.verdict is Verdict.UNKNOWN else outdated(health)


def outdated(health: Health) -> Health:
    """What was known of the cluster, when it may be so no more."""
    trouble = "the metadata store (etcd) does not answer"
    sentence = f"{Verdict.UNKNOWN.value}: {trouble}; what it said last: {health.sentence}"
    faults = replace(health.faults, store_trouble=trouble)
    return replace(health, verdict=Verdict.UNKNOWN, sentence=sentence, faults=faults, since_ms=None)


def also_degraded(health: Health, trouble: str) -> Health:
    """The health with a trouble that the image does not show. It is degraded at best."""
    verdict = Verdict.DEGRADED if health.verdict is Verdict.HEALTHY else health.verdict
    words = [clause for clause in (health.sentence.partition(": ")[2], trouble) if clause]
    faults = replace(health.faults, store_trouble=trouble)
    return replace(health, verdict=verdict, sentence=f"{verdict.value}: {', '.join(words)}", faults=faults)


def with_long_running(health: Health, found: Sequence[LongRunning], now_ms: int) -> Health:
    """The health with groups and transactions that take too long, the longest first. The verdict stays, and so does its time."""
    clauses = [clause for clause in (health.sentence.partition(": ")[2], *_long_running(found, now_ms)) if clause]
    return replace(health, sentence=f"{health.verdict.value}: {', '.join(clauses)}", long_running=found)


def _long_running(found: Sequence[LongRunning], now_ms: int) -> Iterator[str]:
    for kind, (what, takes_long) in _TAKES_LONG.items():
        those = [each for each in found if each.kind == kind]
        if those:
            others = f", and {len(those) - 1} more" if len(those) > 1 else ""
            yield f"{what} {_printable(those[0].name)} {takes_long} for {_lasting(now_ms - those[0].since_ms)}{others}"


def _printable(name: str) -> str:
    """Clients choose the names of groups and transactional ids."""
    return "".join(each if each.isprintable() else "?" for each in name)


def _lasting(duration_ms: int) -> str:
    seconds = max(duration_ms, 0) // 1000
    return f"{seconds} s" if seconds < 120 else f"{seconds // 60} min"


def _health_of(image: ClusterImage) -> Health:
    if not image.revision:
        return Health(Verdict.UNKNOWN, "unknown: the metadata is not read yet", Faults(), 0, {})
    faults = _faults(image)
    leaders: Counter[int] = Counter()
    moving = 0
    for _, _, state in image.states():
        moving += bool(state.adding or state.removing)
        if state.leader >= 0:
            leaders[state.leader] += 1
    for node_id in image.members(STORAGE):
        leaders.setdefault(node_id, 0)
    clauses = list(_clauses(faults))
    if not clauses:
        verdict = Verdict.HEALTHY
    elif faults.offline:
        verdict = Verdict.OFFLINE
    else:
        verdict = Verdict.DEGRADED
    clauses += _slow_follower_clauses(faults.slow_followers)
    sentence = f"{verdict.value}: {', '.join(clauses)}" if clauses else verdict.value
    return Health(verdict, sentence, faults, moving, dict(sorted(leaders.items())))


def _faults(image: ClusterImage) -> Faults:
    members = image.members(STORAGE)
    offline, under_min_isr, under_replicated = [], [], []
    holders: set[int] = set()
    behind: set[int] = set()
    reasons: dict[str, str] = {}
    everywhere = effective_topic_config(image, "").min_insync_replicas  # a walk over all topics must not resolve each one's
    for topic_id, topic in image.topics_by_id.items():
        configured = everywhere
        if MIN_IN_SYNC in image.overrides("topic", topic.name):
            configured = effective_topic_config(image, topic.name).min_insync_replicas
        for index, state in enumerate(image.partitions_of(topic_id)):
            if state is None:  # its topic has been made a moment ago
                continue
            name = f"{topic.name}-{index}"
            holders.update(replica.node_id for replica in state.replicas)
            wanted = len(state.replicas) - len(state.adding)
            if state.leader < 0:
                offline.append(name)
                if len(reasons) < SHOWN_MAX:
                    reasons[name] = _why_offline(state, members)
            elif len(state.isr) < (configured or default_min_in_sync(wanted)):
                under_min_isr.append(name)
            if len(state.isr) < wanted:
                under_replicated.append(name)
                in_sync = {member.node_id for member in state.isr}
                behind.update(replica.node_id for replica in state.replicas if replica.node_id not in in_sync.union(state.adding))
    roles = (
        CONTROLLER,
        GATEWAY,
        GROUP_COORDINATOR,
        TRANSACTION_COORDINATOR,
        *((QUOTA_MANAGER,) if has_limits(image, SHARED) else ()),
    )
    return Faults(
        tuple(offline),
        tuple(under_min_isr),
        tuple(under_replicated),
        tuple(sorted(behind)),
        tuple(sorted(holders - members.keys())),
        {node_id: member.failed_dirs for node_id, member in sorted(members.items()) if member.failed_dirs},
        {node_id: member.full_dirs for node_id, member in sorted(members.items()) if member.full_dirs},
        tuple(role for role in roles if not image.members(role)),
        _slow_followers(members),
        reasons,
    )


def _slow_followers(members: Mapping[int, Member]) -> dict[int, tuple[int, ...]]:
    slow: dict[int, tuple[int, ...]] = {}
    for leader, member in sorted(members.items()):
        for node_id in member.slow_followers:
            slow[node_id] = (*slow.get(node_id, ()), leader)
    return dict(sorted(slow.items()))


def _why_offline(state: PartitionState, members: Mapping[int, Member]) -> str:
    """In words, with the way out."""
    in_sync = [member.node_id for member in state.isr]
    away = [node_id for node_id in in_sync if node_id not in members]
    if away:
        return f"{_nodes(away)} of its in-sync replicas {_is(away)} down: start {_it(away)}"
    if state.withdrawn:
        damaged = [member.node_id for member in state.withdrawn]
        return f"its log on {_nodes(damaged)} is damaged (docs/inspect.md)"
    directories = {replica.node_id: replica.log_dir_id for replica in state.replicas}
    lost = [node_id for node_id in in_sync if directories.get(node_id) and directories[node_id] not in members[node_id].log_dirs]
    if lost:
        return f"the log directory of its in-sync replica on {_nodes(lost)} is gone: {way_out(state, lost, members)}"
    return f"its in-sync replicas on {_nodes(in_sync)} may lack what was acknowledged: all replicas are asked for their logs"


def _clauses(faults: Faults) -> Iterator[str]:
    is_told = False
    if faults.offline:
        first = faults.offline[0]
        yield f"{_partitions(faults.offline)} offline ({first}: {faults.reasons[first]})"
        is_told = faults.reasons[first].startswith(f"{_nodes(faults.away)} of its in-sync replicas")
    if faults.under_min_isr:
        yield f"{_partitions(faults.under_min_isr)} below min.insync.replicas ({_named(faults.under_min_isr)})"
    if faults.under_replicated:
        yield f"{_partitions(faults.under_replicated)} under-replicated"
    if faults.away and not is_told:
        yield f"{_nodes(faults.away)} {_is(faults.away)} down"
    if faults.failed_directories:
        yield _failed_directories(faults.failed_directories)
    for node_id, paths in faults.full_directories.items():
        yield f"{', '.join(paths)} of {_nodes([node_id])} {_is(paths)} full"
    for role in faults.roles_away:
        yield f"no {role.replace('_', ' ')} is there"


def _slow_follower_clauses(slow_followers: Mapping[int, tuple[int, ...]]) -> Iterator[str]:
    for node_id, leaders in slow_followers.items():
        yield f"{_nodes([node_id])} holds up acks=all of {_nodes(leaders)} again and again"


def _partitions(names: tuple[str, ...]) -> str:
    return "1 partition is" if len(names) == 1 else f"{len(names)} partitions are"


def _named(names: tuple[str, ...]) -> str:
    return ", ".join(names[:NAMED_MAX]) + (", …" if len(names) > NAMED_MAX else "")


def _failed_directories(counts: Mapping[int, int]) -> str:
    count, nodes = sum(counts.values()), _nodes(counts)
    return f"1 log directory of {nodes} does not work" if count == 1 else f"{count} log directories of {nodes} do not work"


def _nodes(node_ids: Iterable[int]) -> str:
    return ", ".join(f"storage-{node_id}" for node_id in node_ids)


def _is(counted: Sized) -> str:
    return "is" if len(counted) == 1 else "are"


def _it(node_ids: list[int]) -> str:
    return "it" if len(node_ids) == 1 else "them"
