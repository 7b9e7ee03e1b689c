"""The client of one request, with what it may do, and the outcomes of a check. No I/O."""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from libs.cluster.acls import CLUSTER_NAME, AclOperation, ResourceType
from libs.cluster.image import ClusterImage
from libs.wire.errors import ErrorCode

T = TypeVar("T")

TOPIC_DENIED: Final = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
GROUP_DENIED: Final = int(ErrorCode.GROUP_AUTHORIZATION_FAILED)
CLUSTER_DENIED: Final = int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
TRANSACTIONAL_ID_DENIED: Final = int(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
UNKNOWN_TOPIC_ID: Final = int(ErrorCode.UNKNOWN_TOPIC_ID)

MESSAGES: Final[Mapping[int, str]] = {
    TOPIC_DENIED: "Topic authorization failed.",
    GROUP_DENIED: "Group authorization failed.",
    CLUSTER_DENIED: "Cluster authorization failed.",
    TRANSACTIONAL_ID_DENIED: "Transactional Id authorization failed.",
}
"""Kafka's messages, for answers that have room for one."""

OPERATIONS_OF: Final[Mapping[ResourceType, tuple[AclOperation, ...]]] = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
}
"""The operations that an answer with authorized operations tells about."""


class Authorizer(Protocol):
    """Who decides: `libs/cluster/standard_authorizer.py`."""

    @property
    def generation(self) -> int: ...

    def allows(self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, name: str) -> bool: ...

    def allows_any(self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType) -> bool: ...


class Asker(NamedTuple):
    """A client as coordinators need to know it, who decide on the topics that its regular expressions match."""

    principal: str = ""
    """"": it may describe all topics."""
    allow_if_no_acl: bool = False


EVERYBODY: Final = Asker()


class Denial(NamedTuple):
    """One decision against a client, for the audit log."""

    operation: AclOperation
    resource_type: ResourceType
    name: str


class Access:
    """What the client of one request may do, by one generation of ACLs."""

    __slots__ = ("_authorizer", "denials", "host", "image", "principal")

    def __init__(self, authorizer: Authorizer, image: ClusterImage, principal: str, host: str) -> None:
        self._authorizer = authorizer
        self.image = image
        self.principal = principal
        self.host = host
        self.denials: list[Denial] = []
        """What an answer refuses. What it only leaves out is not among them, as in Kafka."""

    def may(self, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        """Whether the client may do it. A denial is noted."""
        allowed = self._authorizer.allows(self.principal, self.host, operation, resource_type, name)
        if not allowed:
            self.denials.append(Denial(operation, resource_type, name))
        return allowed

    def sees(self, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        """The same, where a denial is no refusal."""
        return self._authorizer.allows(self.principal, self.host, operation, resource_type, name)

    def may_on_cluster(self, operation: AclOperation) -> bool:
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def sees_on_cluster(self, operation: AclOperation) -> bool:
        return self.sees(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def may_on_any(self, operation: AclOperation, resource_type: ResourceType) -> bool:
        return self._authorizer.allows_any(self.principal, self.host, operation, resource_type)

    def split(
        self, operation: AclOperation, resource_type: ResourceType, items: Iterable[T], name_of: Callable[[T], str]
    ) -> tuple[list[T], list[T]]:
        """Those that the client may do it to, and the others. A name that comes twice is decided once."""
        allowed: list[T] = []
        denied: list[T] = []
        decided: dict[str, bool] = {}
        for item in items:
            name = name_of(item)
            decision = decided.get(name)
            if decision is None:
                decision = decided[name] = self.may(operation, resource_type, name)
            (allowed if decision else denied).append(item)
        return allowed, denied

    def operations(self, resource_type: ResourceType, name: str) -> int:
        """The operations that the client may carry out on a resource, as bits."""
        return sum(1 << operation for operation in OPERATIONS_OF[resource_type] if self.sees(operation, resource_type, name))

    def operations_on_cluster(self) -> int:
        """As Kafka answers them: none for a client that may not describe the cluster."""
        if not self.may_on_cluster(AclOperation.DESCRIBE):
            return 0
        return self.operations(ResourceType.CLUSTER, CLUSTER_NAME)

    def name_of(self, topic_id: bytes) -> str | None:
        """The name of a topic. None: the image has no such id. The request must not go on with it: others may know the topic, and
        the next image may have it, while nobody has decided about it."""
        topic = self.image.topics_by_id.get(topic_id)
        return topic.name if topic is not None else None


class Refused(NamedTuple):
    """The whole request is answered with an error."""

    response: Any


class Filtered(NamedTuple):
    """The handler gets the request without what is denied. `complete` makes the answer from the handler's: it adds the errors of
    what is denied, and leaves out what the client may not see."""

    request: Any
    complete: Callable[[Any], Coroutine[Any, Any, Any]]


def with_refusals(request: Any, results_of: Callable[[Any], list[Any]], refusals: list[Any]) -> Filtered:
    """A request without what is denied. The answer of its handler gets the refusals too, among the results."""

    async def complete(response: Any) -> Any:
        results_of(response).extend(refusals)
        return response

    return Filtered(request, complete)


class Denied(NamedTuple):
    """Topics of a Produce or a Fetch, by id where the request has ids, else by name, with their errors. Its handler answers
    them."""

    errors: Mapping[str | bytes, int]


Outcome = Refused | Filtered | Denied | None
"""None: the request is allowed as it is."""

Check = Callable[[Access, Any, int], Outcome]
"""Checks a request of that version."""


class Row(NamedTuple):
    """What one API's requests need.

    `repeats`: a request that a shortcut recognises names the same resources as the one that taught it.
    """

    check: Check
    repeats: bool = False


def cluster_operation(operation: AclOperation, refusal: Callable[[Any, int], Any]) -> Check:
    """A check of an operation on the cluster. `refusal` makes the answer to a request of a version."""

    def check(access: Access, request: Any, version: int) -> Outcome:
        return None if access.may_on_cluster(operation) else Refused(refusal(request, version))

    return check


def nothing(access: Access, request: Any, version: int) -> Outcome:
    """The check of an API that everybody may use."""
    return None
