"""A member of a classic group."""

from dataclasses import dataclass
from typing import NamedTuple

from services.group_coordinator.core.records import ClassicMember


class Offered(NamedTuple):
    """A protocol (Kafka's consumers: an assignor) that a member can speak, with what it says to a leader that uses it."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True)
class Member:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[Offered, ...]
    """Most wanted first."""
    assignment: bytes = b""
    new: bool = False
    """Was in no generation yet."""

    def asks_as(self, other: "Member") -> bool:
        """For the same protocols, and for as much time."""
        return self.protocols == other.protocols and self.rebalance_timeout_ms == other.rebalance_timeout_ms

    def metadata(self, protocol: str | None) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def logged(self, protocol: str | None, assignment: bytes) -> ClassicMember:
        return ClassicMember(
            self.member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.metadata(protocol),
            assignment,
        )


def from_log(found: ClassicMember, protocol: str | None) -> Member:
    rebalance_ms = found.rebalance_timeout_ms if found.rebalance_timeout_ms >= 0 else found.session_timeout_ms
    return Member(
        found.member_id,
        found.instance_id,
        found.client_id,
        found.client_host,
        rebalance_ms,
        found.session_timeout_ms,
        (Offered(protocol or "", bytes(found.subscription)),),
        bytes(found.assignment),
    )
