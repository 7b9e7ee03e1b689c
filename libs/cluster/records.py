"""Records of the metadata store: one frozen dataclass per kind of key, as JSON.

Small, slow-changing facts only. Decoders ignore fields that they do not know and default those that are missing, so that
nodes of neighbouring versions read each other. JSON keeps `etcdctl get --prefix /penstock` readable.
"""

from dataclasses import field
from typing import NamedTuple

from libs import roles
from libs.lean_dataclass import dataclass

STORAGE, GATEWAY, CONTROLLER = roles.STORAGE, roles.GATEWAY, roles.CONTROLLER
GROUP_COORDINATOR, TRANSACTION_COORDINATOR = roles.GROUP_COORDINATOR, roles.TRANSACTION_COORDINATOR
QUOTA_MANAGER = roles.QUOTA_MANAGER
"""The roles of members. Readers pass over roles that they do not know, since later versions may add some."""


class Replica(NamedTuple):
    """A place where a partition lives. `log_dir_id` is 32 hex digits, "" when the node has not yet chosen."""

    node_id: int
    log_dir_id: str


class InSync(NamedTuple):
    """An ISR member: a node, and the incarnation in which it was found to be in sync."""

    node_id: int
    incarnation: int


class HistoryEntry(NamedTuple):
    """A random number, and the revision after which it was put into the history."""

    nonce: int
    revision: int


@dataclass(frozen=True, slots=True)
class MetadataMark:
    """How far a process has seen the metadata: a revision, and the newest nonces of the history, oldest first. Without nonces it
    says nothing."""

    revision: int = 0
    nonces: tuple[int, ...] = ()


NO_MARK = MetadataMark()


@dataclass(frozen=True, slots=True)
class MetadataHistory:
    """The history of the store's contents, oldest first. Key: `history`. The active controller adds an entry when its term begins
    and after partitions have changed. A store that was restored from a backup lacks entries that processes have seen.

    `lost`: nonces that processes have seen and this store lacked. The controller has answered them: it took all partitions into
    doubt. `restored_ms`: the wall time of the last such answer, or of the last restore or rebuild by our commands; 0: there was
    none. What was created before it may be missing, though nobody deleted it.
    """

    entries: tuple[HistoryEntry, ...] = ()
    lost: tuple[int, ...] = ()
    restored_ms: int = 0


NO_HISTORY = MetadataHistory()


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One partition. Key: `partitions/<topic id hex>/<index>`. Only the elected controller writes it.

    `leader` is -1 when there is none. `leader_epoch` rises with every change of leader. It also rises with every restart of the
    leader, since a node leads only with the incarnation named here. `partition_epoch` rises with every change of this record.

    `owner` and `owner_epoch` name the coordinator of an internal topic's shard.

    During a reassignment (KIP-455), `replicas` has the target's replicas and those that will be removed; `adding` and `removing`
    tell them apart. `paced`: the cluster itself began that reassignment, so its copies keep to `self.balancing.bytes.per.second`.

    `recovering`: the leader was elected uncleanly, and the ISR has not grown since.

    `lax`: acknowledged records may be in page caches only. The topic is `replicated`, or was, and its leader has not reported
    since then that they all are on the disks of the ISR.

    `withdrawn`: ISR members whose logs are damaged, each in one incarnation. They stay in the ISR since there is no other, and do
    not lead.
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
        """The number of replicas without those that a reassignment is adding. These count once they replace others, or once it is
        done."""
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
    """Storage only: since that incarnation the node has lost nothing that it wrote, synced or not. Each stop since then was
    clean, or the kernel lived on with its page cache. 0, from an older version: only synced records are sure."""
    stopping: bool = False
    """The process is about to stop. It asks that its leaderships (storage) or its shards (group coordinator) be moved."""
    failed_dirs: int = 0
    """Storage only: the number of its configured log directories that are not in use. A replica that the node lacks may lie in
    one of them."""
    full_dirs: tuple[str, ...] = ()
    """Storage only: paths of log directories that refuse appends, since they are full."""
    seen: MetadataMark = NO_MARK
    """Storage only: how far the node's former life had seen the metadata."""
    went_back: tuple[str, ...] = ()
    """Storage only: ids of log directories that are older copies of themselves. Acknowledged records are missing there."""
    slow_followers: tuple[int, ...] = ()
    """Storage only: followers that hold up acks=all of partitions which this node leads, again and again."""
    authorizer: str = ""
    """Gateway only: a digest of its authorizer's settings, which all gateways must share. "", from an older version: unknown."""
    broker_ids: tuple[int, ...] = ()
    """Gateway only: the broker ids whose ports it has. Empty: those of all, and the bootstrap port."""
    etcd_access: str = ""
    """A digest of the table of what each role may do in etcd, as the process has it (`libs/cluster/etcd/access.py`). "", from an
    older version: unknown."""


@dataclass(frozen=True, slots=True)
class ConfigOverrides:
    """Key: `configs/<topic|broker|group>/<name>`; broker "" is the cluster-wide default. Values are strings, as in Kafka."""

    values: dict[str, str] = field(default_factory=dict)


class QuotaEntity(NamedTuple):
    """Whom quotas are configured for: a user, a client id, both together, or a client's address. "" is Kafka's `<default>`, which
    stands for every name that has no quota of its own. None: the entity has no such part."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None


@dataclass(frozen=True, slots=True)
class ClientQuotas:
    """The quotas of one entity, by Kafka's names. Key: `keys.client_quotas`."""

    values: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AclRecord:
    """Key: `keys.acl`, which says everything."""


@dataclass(frozen=True, slots=True)
class ElectedController:
    """Key: `election/controller`, under the winner's lease. Its create revision guards each of the winner's writes."""

    node_id: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class ElectedQuotaManager:
    """Key: `election/quota_manager`, under the winner's lease."""

    node_id: int
    incarnation: int


Elected = ElectedController | ElectedQuotaManager
"""The process that is elected among those of its role."""


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A storage node that has ever registered. Key: `nodes/<id>`; outlives the member's lease."""

    node_id: int
    log_dirs: tuple[str, ...] = ()
    rack: str = ""
