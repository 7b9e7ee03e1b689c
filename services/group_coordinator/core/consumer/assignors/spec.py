"""What a server-side assignor is given, and what it returns. Topics are known by id, partitions by number."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

Assignment: TypeAlias = Mapping[str, Mapping[bytes, Sequence[int]]]
"""Member id → topic id → partitions, ascending. Every member is in it; topics of which it has none are not."""


@dataclass(frozen=True, slots=True)
class MemberSpec:
    subscribed: frozenset[bytes]
    """Topic ids. Those that `GroupSpec.topics` does not have are passed over."""
    assigned: Mapping[bytes, Collection[int]] = field(default_factory=dict)
    """The target assignment so far. Assignors keep of it what they can, and pass over what is not to be had any more."""
    instance_id: str | None = None
    rack_id: str | None = None


@dataclass(frozen=True, slots=True)
class TopicSpec:
    partitions: int
    racks: Sequence[frozenset[str]] = ()
    """Where the replicas of each partition are; empty where that is not known."""


@dataclass(frozen=True, slots=True)
class GroupSpec:
    members: Mapping[str, MemberSpec]
    """By member id."""
    topics: Mapping[bytes, TopicSpec]


Assignor: TypeAlias = Callable[[GroupSpec], Assignment]
"""Pure, and equal specs have equal results, in whatever order their mappings are."""
