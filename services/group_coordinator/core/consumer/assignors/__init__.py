"""Server-side assignors (KIP-848): which member of a consumer group is to have which partitions."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from services.group_coordinator.core.consumer.assignors.range import assign_range
from services.group_coordinator.core.consumer.assignors.spec import Assignment, Assignor, GroupSpec
from services.group_coordinator.core.consumer.assignors.uniform import assign_uniform

ASSIGNORS: Final[Mapping[str, Assignor]] = MappingProxyType({"uniform": assign_uniform, "range": assign_range})
"""By their names in `group.consumer.assignors`. The first is the default."""


def assign(name: str, spec: GroupSpec) -> Assignment:
    """Raises KeyError for a name that is not in ASSIGNORS."""
    return ASSIGNORS[name](spec)
