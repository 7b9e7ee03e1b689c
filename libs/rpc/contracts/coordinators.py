"""The requests that a gateway sends to the owner of a coordinator's shard, on behalf of a client.

Requests travel as their clients wrote them: the payload is the Kafka request's body, in `api_version`. The payload of the answer
is the Kafka response's body, in the same version. The gateway reads only as much as it needs to find the shard. It has split a
request that names several groups: all groups in the payload belong to `shard`.
"""

from libs.lean_dataclass import dataclass

ASK_GROUPS = "groups.ask"
ASK_TRANSACTIONS = "transactions.ask"


@dataclass(frozen=True, slots=True)
class Ask:
    """A client's request about a group or a transactional id. It has no deadline of its own, since joins wait for other
    members."""

    shard: int  # the partition of the coordinators' topic
    api_key: int
    api_version: int
    client_id: str  # "" where the client sent null
    client_host: str  # as Kafka writes an address: "/127.0.0.1"
    # The revision at which the topics of the caller's image last changed. An owner whose image is older waits for its own before
    # it decides what depends on topics.
    topics_revision: int = 0
    # Who asks, if an authorizer decides which topics a regular expression of theirs may match. "": all that there are.
    principal: str = ""
    # Whether such a principal may describe topics that no ACL names.
    allow_if_no_acl: bool = False


@dataclass(frozen=True, slots=True)
class AskReply:
    """The answer. `error` 0: the payload is the response's body. With any other error there is no payload, and the gateway writes
    the API's own error response.

    14 COORDINATOR_LOAD_IN_PROGRESS: the shard is being loaded, or the owner's image is behind the caller's. 15
    COORDINATOR_NOT_AVAILABLE: the topic does not exist yet. 16 NOT_COORDINATOR: another process owns the shard. 7
    REQUEST_TIMED_OUT, 47 INVALID_PRODUCER_EPOCH and -1 UNKNOWN_SERVER_ERROR: the outcome of an append. 42 INVALID_REQUEST:
    the payload is no such request, and the connection must be closed.
    """

    error: int
    # The error for which the owner keeps spans of the request, be it `error` or one within the response. 0: for none.
    traced_error: int = 0
