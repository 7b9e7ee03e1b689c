"""The ways between processes that are cut, while the processes live."""

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from libs.lean_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Cuts:
    """The ways that are cut, by storage node."""

    callers: Mapping[int, int] = field(default_factory=dict)
    """The number of gateways and coordinators that cannot reach the node."""
    peers: Mapping[int, frozenset[int]] = field(default_factory=dict)
    """Storage nodes that cannot reach the node, or that the node cannot reach."""


NO_CUTS: Final = Cuts()


def no_cuts() -> Cuts:
    return NO_CUTS
