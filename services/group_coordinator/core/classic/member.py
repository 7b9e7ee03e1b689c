"""A member of a classic group."""

from typing import NamedTuple

from libs.lean_dataclass import dataclass
from services.group_coordinator.core.model.records import ClassicMember


class Offered(NamedTuple):
    """A protocol that a member supports (for consumers: an assignor), with its metadata for the leader."""

    name: str
    metadata: bytes


class PendingMember(NamedTuple):
    """A member id that was given and not used yet."""

    until_ms: int
    said: str
    """The reason that the client gave when it asked for the id."""


@dataclass(frozen=True, slots=True)
class Member:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[Offered, ...]
    """Protocols in order of preference."""
    assignment: bytes = b""
    new: bool = False
    """It has not been in any generation yet."""

    def offers_same(self, other: "Member") -> bool:
        """Whether both offer the same protocols and rebalance timeout."""
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


def from_log(logged: ClassicMember, protocol: str | None) -> Member:
    rebalance_ms = logged.rebalance_timeout_ms if logged.rebalance_timeout_ms >= 0 else logged.session_timeout_ms
    return Member(
        logged.member_id,
        logged.instance_id,
        logged.client_id,
        logged.client_host,
        rebalance_ms,
        logged.session_timeout_ms,
        (Offered(protocol or "", bytes(logged.subscription)),),
        bytes(logged.assignment),
    )
