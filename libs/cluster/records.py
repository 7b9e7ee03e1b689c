"""What the metadata store holds: one frozen dataclass per kind of key, as JSON.

Small, slow-changing facts only. Decoders ignore fields that they do not know and default those that are missing, so that
nodes of neighbouring versions read each other (DESIGN section 5). JSON keeps `etcdctl get --prefix /penstock` readable.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

STORAGE, GATEWAY, CONTROLLER = "storage", "gateway", "controller"
GROUP_COORDINATOR = "group_coordinator"
"""Roles of members. More will come; readers pass over those that they do not know."""


class Replica(NamedTuple):
    """A place where a partition lives. `log_dir_id` is 32 hex digits, "" when the node has not yet chosen."""

    node_id: int
    log_dir_id: str


class InSync(NamedTuple):
    """An ISR member: a node, and the incarnation in which it was found to be in sync."""

    node_id: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One partition. Key: `partitions/<topic id hex>/<index>`. Only the elected controller writes it.

    `leader` is -1 when there is none. `leader_epoch` rises with every change of leader, and with every restart of it, since a
    node leads only with the incarnation named here. `partition_epoch` rises with every change of this record.
    `owner` and `owner_epoch` name the coordinator of an internal topic's shard.
    While it is reassigned (KIP-455), `replicas` are the target's and those that are to go; `adding` and `removing` say which.
    `paced`: the cluster itself began that reassignment, so its copies keep to `self.balancing.bytes.per.second`.
    `recovering`: its leader was elected uncleanly, and the ISR has not grown since.
    `lax`: what was acknowledged may be in page caches only, since the topic is `replicated`; or was, and its leader has not said
    since that all of it is on the disks of the ISR.
    `withdrawn`: ISR members, in one life each, whose logs are damaged: they stay in the ISR for want of another, and do not lead.
    """

    replicas: tuple[Replica, ...]
    leader: int
    leader_incarnation: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[InSync, ...]
    owner: str = ""
    owner_epoch: int = 0
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    recovering: bool = False
    withdrawn: tuple[InSync, ...] = ()
    paced: bool = False
    lax: bool = False

    @property
    def replication_factor(self) -> int:
        """Without those that a reassignment is adding: they count once they replace others, or it is done."""
        return len(self.replicas) - len(self.adding)


@dataclass(frozen=True, slots=True)
class Topic:
    """Key: `topics/<name>`. Written after its partitions at creation and deleted before them: its presence is the commit."""

    name: str
    topic_id: str  # 32 hex digits
    partitions: int
    internal: bool = False


@dataclass(frozen=True, slots=True)
class Listener:
    """A gateway listener as clients reach it. Broker id i is at `port_base + i`, bootstrap at `port_base` itself."""

    name: str
    host: str
    port_base: int
    protocol: str = "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class Member:
    """A live process. Key: `members/<role>/<id>`, under the process's lease.

    Addresses as transports take them, "" for none: `unix_address` (unix:/path) is usable where `host_id` equals the caller's own
    and the path exists there, `tcp_address` (tcp:host:port) from anywhere.
    """

    role: str
    node_id: int
    incarnation: int
    host_id: str
    tcp_address: str = ""
    unix_address: str = ""
    rack: str = ""
    log_dirs: tuple[str, ...] = ()  # directory ids, hex; storage only
    configs: dict[str, str] = field(default_factory=dict)  # broker configs that it was started with; storage only
    listeners: tuple[Listener, ...] = ()  # gateway only
    version: str = ""
    feature_level: int = 1
    survived_from: int = 0
    """Storage: nothing that this node wrote since that incarnation was lost, synced or not: each stop since was clean, or the
    kernel with its page cache lived on. 0 where an older version does not say: only what was synced is sure."""
    stopping: bool = False
    """It asks for its leaderships (storage) or its shards (group coordinator) to be moved, and will be gone soon."""
    failed_dirs: int = 0
    """Storage: so many of its configured log directories are not in use. What it lacks may lie in one of them."""


@dataclass(frozen=True, slots=True)
class ConfigOverrides:
    """Key: `configs/<topic|broker|group>/<name>`; broker "" is the cluster-wide default. Values are strings, as in Kafka."""

    values: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ElectedController:
    """Key: `election/controller`, under the winner's lease. Its create revision guards each of the winner's writes."""

    node_id: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A storage node that has ever registered. Key: `nodes/<id>`; outlives the member's lease."""

    node_id: int
    log_dirs: tuple[str, ...] = ()
    rack: str = ""
