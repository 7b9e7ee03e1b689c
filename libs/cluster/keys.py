"""Where everything lies in the metadata store. All keys are below `PREFIX`, so that one watch sees them all, in order.

A name never needs escaping: topic names hold no slash, and whatever else may hold one (a group's name) comes last.
"""

from libs.cluster.codec import RecordError

PREFIX = "/penstock/"

CLUSTER_ID = PREFIX + "cluster_id"
FEATURE_LEVEL = PREFIX + "feature_level"
PRODUCER_IDS = PREFIX + "producer_ids"
CONTROLLER = PREFIX + "election/controller"
DELETIONS = PREFIX + "deletions"
"""Every deletion of the controller's writes it: its mod revision says whether what is absent may have been there meanwhile."""

MEMBERS = PREFIX + "members/"
TOPICS = PREFIX + "topics/"
PARTITIONS = PREFIX + "partitions/"
CONFIGS = PREFIX + "configs/"
NODES = PREFIX + "nodes/"


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
        found = bytes.fromhex(topic_id), int(index)
    except ValueError as error:
        raise RecordError(f"{key}: {error}") from None
    if partition(*found) != key:
        raise RecordError(f"{key}: not a partition's key")
    return found


def config(kind: str, name: str) -> str:
    """`kind` is "topic", "broker" or "group"; broker "" is the cluster-wide default."""
    return f"{CONFIGS}{kind}/{name}"


def node(node_id: int) -> str:
    return f"{NODES}{node_id}"


def split(key: str) -> tuple[str, ...]:
    """A key's kind and names: `("partitions", topic id hex, index)`, `("configs", kind, name)`, `("cluster_id",)`, …

    A kind that this version does not know comes back as it is; what is not below `PREFIX` is `()`.
    """
    if not key.startswith(PREFIX):
        return ()
    kind, _, rest = key[len(PREFIX) :].partition("/")
    match kind:
        case "members" | "partitions" | "configs":
            first, _, second = rest.partition("/")
            return (kind, first, second)
        case "topics" | "nodes" | "election":
            return (kind, rest)
        case _:
            return (kind, rest) if rest else (kind,)
