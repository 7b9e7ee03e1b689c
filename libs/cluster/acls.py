"""ACLs in Kafka's terms: a binding allows or denies one principal one operation on the resources of a pattern. Pure.

`standard_authorizer.py` decides by them, and `acl_index.py` finds them.
"""

from enum import IntEnum
from typing import Final, NamedTuple, TypeVar

from libs.cluster.configs.connection_table import usual_address
from libs.lean_dataclass import dataclass

E = TypeVar("E", bound=IntEnum)

WILDCARD: Final = "*"
"""As the name of a literal pattern it stands for every resource, and as a host for every host."""
ANY_USER: Final = "User:*"
"""The principal of an ACL that holds for every principal."""
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""


class ResourceType(IntEnum):
    """Kafka's numbers in requests."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermission(IntEnum):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class AclBinding(NamedTuple):
    """One ACL. It has no other identity than its fields: a second one with the same fields is the same ACL.

    `principal` is a type and a name, such as `User:alice`. `host` is an address as `ipaddress` writes it, or `*`.
    """

    resource_type: ResourceType
    pattern_type: PatternType
    name: str
    principal: str
    host: str
    operation: AclOperation
    permission: AclPermission


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Which bindings a request is about: those that fit every field. ANY, and None for a text, fits all.

    The pattern type MATCH fits the patterns that hold for a resource of that name, however they are written.
    """

    resource_type: ResourceType = ResourceType.ANY
    pattern_type: PatternType = PatternType.ANY
    name: str | None = None
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY

    @classmethod
    def asked(
        cls,
        resource_type: int,
        pattern_type: int,
        name: str | None,
        principal: str | None,
        host: str | None,
        operation: int,
        permission: int,
    ) -> "AclFilter":
        """That of a request, which has Kafka's numbers and any spelling of an address."""
        return cls(
            known(ResourceType, resource_type),
            known(PatternType, pattern_type),
            name,
            principal,
            None if host is None else canonical_host(host),
            known(AclOperation, operation),
            known(AclPermission, permission),
        )

    @property
    def binding(self) -> AclBinding | None:
        """The only binding that can match. None: several can."""
        kinds = (self.resource_type, self.operation, self.permission)
        if ResourceType.ANY in kinds or self.pattern_type in (PatternType.ANY, PatternType.MATCH):
            return None
        if self.name is None or self.principal is None or self.host is None:
            return None
        return AclBinding(
            self.resource_type, self.pattern_type, self.name, self.principal, self.host, self.operation, self.permission
        )

    @property
    def is_unknown(self) -> bool:
        """Whether a number stands for nothing. Such a filter is refused."""
        return 0 in (self.resource_type, self.pattern_type, self.operation, self.permission)

    def matches(self, binding: AclBinding) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, binding.resource_type)
            and self.principal in (None, binding.principal)
            and self.host in (None, binding.host)
            and self.operation in (AclOperation.ANY, binding.operation)
            and self.permission in (AclPermission.ANY, binding.permission)
            and self._matches_pattern(binding.pattern_type, binding.name)
        )

    def _matches_pattern(self, pattern_type: PatternType, name: str) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern_type):
            return False
        if self.name is None or self.name == name:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return False
        return self.name.startswith(name) if pattern_type is PatternType.PREFIXED else name == WILDCARD


def canonical_host(host: str) -> str:
    """A host as the gateway knows its clients': an IPv6 address has many spellings, and Java prints another one than Python. What
    is no address stays as it is, and no client has it."""
    return usual_address(host) or host


def known(kind: type[E], number: int) -> E:
    """The member of an enum with Kafka's number. UNKNOWN for one that stands for nothing."""
    try:
        return kind(number)
    except ValueError:
        return kind(0)
