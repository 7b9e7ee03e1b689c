"""All ACLs of the cluster at one revision, found by who asks for what. Immutable: an edit makes the next one.

A decision costs some probes of maps, whatever the number of ACLs. Of prefixes, only the lengths that occur are tried.
"""

from collections.abc import Iterator, Mapping
from dataclasses import field
from hashlib import blake2b
from typing import Final, Generic, TypeVar

from libs.cluster.acls import WILDCARD, AclBinding, AclFilter, AclPermission, PatternType, ResourceType
from libs.lean_dataclass import dataclass

K = TypeVar("K")

DENY_SHIFT: Final = 16
"""An ACL is a bit: of its operation if it allows, and that many places higher if it denies."""

Subject = tuple[ResourceType, str, str]
"""The resource type, the principal and the host of an ACL."""


def bit_of(binding: AclBinding) -> int:
    return 1 << (binding.operation + (DENY_SHIFT if binding.permission is AclPermission.DENY else 0))


@dataclass(frozen=True, slots=True)
class Patterns:
    """Patterns of one resource type, each with a number: bits of ACLs, or how many there are. No number is 0."""

    literals: Mapping[str, int] = field(default_factory=dict)
    prefixes: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    """By their length."""

    def bits(self, name: str) -> int:
        """The bits of all patterns that a resource's name fits."""
        return self.literals.get(name, 0) | self.literals.get(WILDCARD, 0) | self.prefix_bits(name)

    def prefix_bits(self, name: str) -> int:
        """The bits of all prefixes that a literal's name, or a longer prefix, begins with."""
        bits = 0
        for length, prefixes in self.prefixes.items():
            if length <= len(name):
                bits |= prefixes.get(name[:length], 0)
        return bits


NO_PATTERNS: Final = Patterns()


@dataclass(frozen=True, slots=True)
class AclIndex:
    """The ACLs of an image."""

    bindings: Mapping[AclBinding, None] = field(default_factory=dict)
    generation: int = field(default=0, compare=False)
    """A digest of all bindings. It changes exactly when an ACL does, and is the same in every process; 0: there are none."""
    subjects: Mapping[Subject, Patterns] = field(default_factory=dict, compare=False)
    resources: Mapping[ResourceType, Patterns] = field(default_factory=dict, compare=False)
    """How many ACLs each pattern has, whoever they are for."""

    @classmethod
    def of(cls, *bindings: AclBinding) -> "AclIndex":
        edit = AclEdit(cls())
        for binding in bindings:
            edit.add(binding)
        return edit.finish()

    def matching(self, wanted: AclFilter) -> list[AclBinding]:
        """Costs 0.2 µs for each ACL of the cluster, and nothing for a filter that can match only one."""
        if wanted.binding is not None:
            return [wanted.binding] if wanted.binding in self.bindings else []
        return [binding for binding in self.bindings if wanted.matches(binding)]

    def __len__(self) -> int:
        return len(self.bindings)

    def __iter__(self) -> Iterator[AclBinding]:
        return iter(self.bindings)


NO_ACLS: Final = AclIndex()


class AclEdit:
    """One step from an index to the next. It copies each map once, and only if the map changes."""

    def __init__(self, base: AclIndex) -> None:
        self._base = base
        self._bindings: dict[AclBinding, None] | None = None
        self._generation = base.generation
        self._subjects: _Tables[Subject] = _Tables(base.subjects)
        self._resources: _Tables[ResourceType] = _Tables(base.resources)

    def add(self, binding: AclBinding) -> None:
        if binding in self._current:
            return
        self._writable()[binding] = None
        self._generation ^= _digest(binding)
        bits = self._subjects.writable(_subject(binding)).names(binding)
        bits[binding.name] = bits.get(binding.name, 0) | bit_of(binding)
        counts = self._resources.writable(binding.resource_type).names(binding)
        counts[binding.name] = counts.get(binding.name, 0) + 1

    def remove(self, binding: AclBinding) -> None:
        if binding not in self._current:
            return
        del self._writable()[binding]
        self._generation ^= _digest(binding)
        self._subjects.writable(_subject(binding)).reduce(binding, bit_of(binding))
        self._resources.writable(binding.resource_type).reduce(binding, 1)

    def finish(self) -> AclIndex:
        """The base itself if its ACLs are still the same."""
        if self._bindings is None:
            return self._base
        return AclIndex(self._bindings, self._generation, self._subjects.finish(), self._resources.finish())

    @property
    def _current(self) -> Mapping[AclBinding, None]:
        return self._base.bindings if self._bindings is None else self._bindings

    def _writable(self) -> dict[AclBinding, None]:
        if self._bindings is None:
            self._bindings = dict(self._base.bindings)
        return self._bindings


class _Tables(Generic[K]):
    """Maps of patterns, each of which is shared until it is written."""

    def __init__(self, base: Mapping[K, Patterns]) -> None:
        self._base = base
        self._edits: dict[K, _PatternsEdit] = {}

    def writable(self, key: K) -> "_PatternsEdit":
        edit = self._edits.get(key)
        if edit is None:
            edit = self._edits[key] = _PatternsEdit(self._base.get(key, NO_PATTERNS))
        return edit

    def finish(self) -> Mapping[K, Patterns]:
        tables = dict(self._base)
        for key, edit in self._edits.items():
            patterns = edit.finish()
            if patterns.literals or patterns.prefixes:
                tables[key] = patterns
            else:
                tables.pop(key, None)
        return tables


class _PatternsEdit:
    def __init__(self, base: Patterns) -> None:
        self._literals = dict(base.literals)
        self._prefixes = {length: dict(names) for length, names in base.prefixes.items()}

    def names(self, binding: AclBinding) -> dict[str, int]:
        """The numbers of the patterns that have this one's type and, of prefixes, its length."""
        return self._literals if binding.pattern_type is PatternType.LITERAL else self._prefixes.setdefault(len(binding.name), {})

    def reduce(self, binding: AclBinding, by: int) -> None:
        names = self.names(binding)
        names[binding.name] -= by
        if not names[binding.name]:
            del names[binding.name]

    def finish(self) -> Patterns:
        return Patterns(self._literals, {length: names for length, names in self._prefixes.items() if names})


def _subject(binding: AclBinding) -> Subject:
    return binding.resource_type, binding.principal, binding.host


def _digest(binding: AclBinding) -> int:
    kind, pattern, name, principal, host, operation, permission = binding
    text = repr((int(kind), int(pattern), name, principal, host, int(operation), int(permission)))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())
