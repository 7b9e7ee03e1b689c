"""The keys of the metadata store. All that images show begin with `PREFIX`, so that one watch sees every change, in order.

A name rarely needs escaping: topic names hold no slash, and a name that may hold one (a group's) comes last. Names of quota
entities and of ACLs are escaped, as Kafka did in ZooKeeper: a user and a client id may hold any character.
"""

from urllib.parse import quote, unquote

from libs.cluster.acls import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from libs.cluster.codec import RecordError
from libs.cluster.records import QuotaEntity

PREFIX = "/penstock/"

CLUSTER_ID = PREFIX + "cluster_id"
FEATURE_LEVEL = PREFIX + "feature_level"
PRODUCER_IDS = PREFIX + "producer_ids"
HISTORY = PREFIX + "history"
CONTROLLER = PREFIX + "election/controller"
QUOTA_MANAGER = PREFIX + "election/quota_manager"
DELETIONS = PREFIX + "deletions"
"""A key that each deletion by the controller writes. Its mod revision tells whether an absent key may have existed in between."""

VOLUME_STAMPS = "/penstock-volume-stamps/"
"""Outside of `PREFIX`: nobody watches them. Each storage node writes those of its own log directories."""

SCRAM = "/penstock-scram/"
"""Outside of `PREFIX`, so that no image, debug page or backup holds it: users' SCRAM credentials. The controller writes them."""
SCRAM_CREDENTIALS = SCRAM + "credentials/"
SCRAM_SECRET = SCRAM + "secret"
"""What the invented salts of unknown users are derived from (`libs/cluster/scram_credentials.py`)."""

MEMBERS = PREFIX + "members/"
TOPICS = PREFIX + "topics/"
PARTITIONS = PREFIX + "partitions/"
CONFIGS = PREFIX + "configs/"
FEATURES = PREFIX + "features/"
NODES = PREFIX + "nodes/"
QUOTAS = PREFIX + "quotas/"
ACLS = PREFIX + "acls/"
DEFAULT_ENTITY = "<default>"
"""As in Kafka, the default stands where a name would. No escaped name has these characters."""


def member(role: str, node_id: int) -> str:
    return f"{MEMBERS}{role}/{node_id}"


def topic(name: str) -> str:
    return TOPICS + name


def partition(topic_id: bytes, index: int) -> str:
    return f"{PARTITIONS}{topic_id.hex()}/{index}"


def partitions_of(topic_id: bytes) -> str:
    """The prefix of all of a topic's partitions."""
    return f"{PARTITIONS}{topic_id.hex()}/"


def partition_of(key: str) -> tuple[bytes, int]:
    """The topic id and index of a partition's key. Raises RecordError for any other spelling than ours."""
    _, topic_id, index = split(key)
    try:
        topic_partition = bytes.fromhex(topic_id), int(index)
    except ValueError as error:
        raise RecordError(f"{key}: {error}") from None
    if partition(*topic_partition) != key:
        raise RecordError(f"{key}: not a partition's key")
    return topic_partition


def volume_stamp(directory_id: str) -> str:
    return VOLUME_STAMPS + directory_id


def scram_credential(mechanism: str, user: str) -> str:
    """`mechanism` is Kafka's name: SCRAM-SHA-256 or SCRAM-SHA-512."""
    return f"{SCRAM_CREDENTIALS}{mechanism}/{_escaped(user)}"


def scram_user_of(key: str) -> tuple[str, str]:
    """The mechanism and the user of a key below `SCRAM_CREDENTIALS`. Raises RecordError for any other spelling than ours."""
    mechanism, _, user = key.removeprefix(SCRAM_CREDENTIALS).partition("/")
    named = mechanism, _unescaped(user)
    if scram_credential(*named) != key:
        raise RecordError(f"{key}: not a credential's key")
    return named


def config(kind: str, name: str) -> str:
    """`kind` is "topic", "broker" or "group"; broker "" is the cluster-wide default."""
    return f"{CONFIGS}{kind}/{name}"


def client_quotas(entity: QuotaEntity) -> str:
    """`quotas/users/<user>`, `quotas/users/<user>/clients/<id>`, `quotas/clients/<id>` or `quotas/ips/<address>`, escaped."""
    if entity.ip is not None:
        return f"{QUOTAS}ips/{_escaped(entity.ip)}"
    if entity.user is None:
        assert entity.client_id is not None, "an entity has a part"
        return f"{QUOTAS}clients/{_escaped(entity.client_id)}"
    clients = f"/clients/{_escaped(entity.client_id)}" if entity.client_id is not None else ""
    return f"{QUOTAS}users/{_escaped(entity.user)}{clients}"


def quota_entity_of(key: str) -> QuotaEntity | None:
    """The entity of a key below `QUOTAS`. None: a kind of entity that a later version knows. Raises RecordError for any other
    spelling than ours."""
    match key.removeprefix(QUOTAS).split("/"):
        case ["users", user]:
            entity = QuotaEntity(user=_unescaped(user))
        case ["users", user, "clients", client_id]:
            entity = QuotaEntity(_unescaped(user), _unescaped(client_id))
        case ["clients", client_id]:
            entity = QuotaEntity(client_id=_unescaped(client_id))
        case ["ips", ip]:
            entity = QuotaEntity(ip=_unescaped(ip))
        case _:
            return None
    if client_quotas(entity) != key:
        raise RecordError(f"{key}: not a quota entity's key")
    return entity


def acl(binding: AclBinding) -> str:
    """`acls/<type>/<pattern type>/<name>/<principal>/<host>/<operation>/<permission>`, escaped. The key is the whole ACL."""
    kind, pattern_type, name, principal, host, operation, permission = binding
    texts = f"{_escaped(name)}/{_escaped(principal)}/{_escaped(host)}"
    return f"{ACLS}{kind.name}/{pattern_type.name}/{texts}/{operation.name}/{permission.name}"


def acl_of(key: str) -> AclBinding | None:
    """The ACL of a key below `ACLS`. None: a later version knows its type or its operation. Raises RecordError for any other
    spelling than ours."""
    try:
        kind, pattern_type, name, principal, host, operation, permission = key.removeprefix(ACLS).split("/")
    except ValueError:
        raise RecordError(f"{key}: not an ACL's key") from None
    try:
        numbers = ResourceType[kind], PatternType[pattern_type], AclOperation[operation], AclPermission[permission]
    except KeyError:
        return None
    binding = AclBinding(*numbers[:2], _unescaped(name), _unescaped(principal), _unescaped(host), *numbers[2:])
    if acl(binding) != key:
        raise RecordError(f"{key}: not an ACL's key")
    return binding


def feature(name: str) -> str:
    """The key of a feature's finalized level, in Kafka's sense. `FEATURE_LEVEL` is the cluster's own."""
    return FEATURES + name


def node(node_id: int) -> str:
    return f"{NODES}{node_id}"


def split(key: str) -> tuple[str, ...]:
    """A key's kind and names: `("partitions", topic id hex, index)`, `("configs", kind, name)`, `("cluster_id",)`, …

    A kind that this version does not know is returned as it is. A key outside of `PREFIX` gives `()`.
    """
    if not key.startswith(PREFIX):
        return ()
    kind, _, rest = key[len(PREFIX) :].partition("/")
    match kind:
        case "members" | "partitions" | "configs":
            first, _, second = rest.partition("/")
            return (kind, first, second)
        case "topics" | "nodes" | "election" | "features":
            return (kind, rest)
        case _:
            return (kind, rest) if rest else (kind,)


def _escaped(name: str) -> str:
    return quote(name, safe="") or DEFAULT_ENTITY


def _unescaped(name: str) -> str:
    return "" if name == DEFAULT_ENTITY else unquote(name)
