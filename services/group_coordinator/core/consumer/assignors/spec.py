"""The input and output of a server-side assignor. Topics are known by id, partitions by number."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from libs.lean_dataclass import dataclass

Assignment: TypeAlias = Mapping[str, Mapping[bytes, Sequence[int]]]
"""Member id → topic id → partitions, ascending. It has every member. A member has no entry for a topic without partitions."""


@dataclass(frozen=True, slots=True)
class MemberSpec:
    subscribed: frozenset[bytes]
    """Topic ids. Ids that `GroupSpec.topics` lacks are ignored."""
    assigned: Mapping[bytes, Collection[int]] = field(default_factory=dict)
    """The target assignment so far. Assignors keep what they can of it."""
    instance_id: str | None = None
    rack_id: str | None = None


@dataclass(frozen=True, slots=True)
class TopicSpec:
    partitions: int
    racks: Sequence[frozenset[str]] = ()
    """The racks of each partition's replicas. Empty if unknown."""


@dataclass(frozen=True, slots=True)
class GroupSpec:
    members: Mapping[str, MemberSpec]
    """By member id."""
    topics: Mapping[bytes, TopicSpec]


Assignor: TypeAlias = Callable[[GroupSpec], Assignment]
"""A pure function. Equal specs give equal results, whatever the order of their mappings."""
