"""Kafka's StandardAuthorizer: whether a principal may carry out an operation on a resource. Pure.

An ACL that denies goes before any that allows. Some operations imply others, if they are allowed and not if they are denied.
Super users may do everything. Where no ACL allows, the answer is no, except that `allow_if_no_acl` allows what is done to
resources that no ACL names.

A decision that was asked for before costs one probe of a map, some 0.2 µs. A new one costs some microseconds, however many ACLs
there are.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from libs.cluster.acl_index import DENY_SHIFT, NO_PATTERNS, AclIndex, Patterns
from libs.cluster.acls import ANY_USER, WILDCARD, AclOperation, ResourceType

DECISIONS_MAX: Final = 10_000
"""The most decisions that are remembered. One more, and all are forgotten."""
REMEMBERED_NAME_MAX: Final = 256
"""The longest name that is remembered. Topics have no longer one, and a client chooses the names of groups."""

_HARDCODED: Final = "hardcode"
"""The name that Kafka asks about first when it looks for any resource of a type."""

_IMPLIED_BY: Final[Mapping[AclOperation, tuple[AclOperation, ...]]] = {
    AclOperation.DESCRIBE: (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
}


def _bits(*operations: AclOperation) -> int:
    return sum(1 << operation for operation in operations)


_EXACT: Final = {operation: _bits(operation) | _bits(AclOperation.ALL) for operation in AclOperation}
_ALLOWS: Final = {operation: _EXACT[operation] | _bits(*_IMPLIED_BY.get(operation, ())) for operation in AclOperation}
_DENIES: Final = {operation: _EXACT[operation] << DENY_SHIFT for operation in AclOperation}


class StandardAuthorizer:
    """The decisions of one generation of ACLs. A new generation needs a new authorizer, which costs nothing to make."""

    __slots__ = ("_acls", "_allow_if_no_acl", "_decisions", "_super_users")

    def __init__(self, acls: AclIndex, super_users: frozenset[str] = frozenset(), allow_if_no_acl: bool = False) -> None:
        """`super_users` are principals, such as `User:admin`."""
        self._acls = acls
        self._super_users = super_users
        self._allow_if_no_acl = allow_if_no_acl
        self._decisions: dict[tuple[str, str, AclOperation, ResourceType, str | None], bool] = {}

    @property
    def generation(self) -> int:
        """It changes exactly when an ACL does."""
        return self._acls.generation

    @property
    def acls(self) -> AclIndex:
        return self._acls

    def allows(self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        """`host` is the client's address as `ipaddress` writes it, an IPv4 address as such also on an IPv6 socket."""
        question = (principal, host, operation, resource_type, name)
        decision = self._decisions.get(question)
        if decision is None:
            decision = self._decided(*question)
            if len(name) <= REMEMBERED_NAME_MAX:
                self._remember(question, decision)
        return decision

    def allows_any(self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether there is a resource of that type, existing or not, that the principal may carry out the operation on. Kafka's
        `authorizeByResourceType`: implied operations do not count, and prefixes that are denied in part count as allowed.

        A new decision costs a walk over that principal's ACLs of that type at worst.
        """
        question = (principal, host, operation, resource_type, None)
        decision = self._decisions.get(question)
        if decision is None:
            decision = self.allows(principal, host, operation, resource_type, _HARDCODED) or self._any_decided(
                self._tables(principal, host, resource_type), _EXACT[operation], _DENIES[operation]
            )
            self._remember(question, decision)
        return decision

    def _remember(self, question: tuple[str, str, AclOperation, ResourceType, str | None], decision: bool) -> None:
        if len(self._decisions) >= DECISIONS_MAX:
            self._decisions.clear()
        self._decisions[question] = decision

    def _decided(self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        if principal in self._super_users:
            return True
        bits = 0
        for patterns in self._tables(principal, host, resource_type):
            bits |= patterns.bits(name)
        if bits & _DENIES[operation]:
            return False
        if bits & _ALLOWS[operation]:
            return True
        return self._allow_if_no_acl and not self._acls.resources.get(resource_type, NO_PATTERNS).bits(name)

    def _tables(self, principal: str, host: str, resource_type: ResourceType) -> list[Patterns]:
        """The ACLs that hold for a principal at a host."""
        subjects = self._acls.subjects
        found = [subjects.get((resource_type, who, where)) for who in (principal, ANY_USER) for where in (host, WILDCARD)]
        return [patterns for patterns in found if patterns is not None]

    def _any_decided(self, tables: list[Patterns], allows: int, denies: int) -> bool:
        wildcard = _literal_bits(tables, WILDCARD)
        if wildcard & denies:
            return False
        if wildcard & allows:
            return True
        return any(not _dominated(tables, name, is_literal, denies) for name, is_literal in _allowed(tables, allows))


def _allowed(tables: list[Patterns], allows: int) -> Iterator[tuple[str, bool]]:
    """The names of patterns that allow, and whether each is a literal."""
    for patterns in tables:
        for name, bits in patterns.literals.items():
            if bits & allows:
                yield name, True
        for names in patterns.prefixes.values():
            for name, bits in names.items():
                if bits & allows:
                    yield name, False


def _dominated(tables: list[Patterns], name: str, is_literal: bool, denies: int) -> bool:
    """Whether everything that a pattern allows is denied."""
    if is_literal and _literal_bits(tables, name) & denies:
        return True
    return any(patterns.prefix_bits(name) & denies for patterns in tables)


def _literal_bits(tables: list[Patterns], name: str) -> int:
    bits = 0
    for patterns in tables:
        bits |= patterns.literals.get(name, 0)
    return bits
