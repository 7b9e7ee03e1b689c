"""How fast throttled replicas may be copied (KIP-73): bytes in the last while against a rate, paid for afterwards."""

BURST_S = 1.0


class CopyAllowance:
    """Of one node. What came is never undone: whoever took too much waits until the rate has caught up."""

    __slots__ = ("_paid_until",)

    def __init__(self) -> None:
        self._paid_until = 0.0

    def take(self, amount: int, rate: int, now: float) -> float:
        """Seconds to wait before more is asked for."""
        self._paid_until = max(self._paid_until, now - BURST_S) + amount / rate
        return max(0.0, self._paid_until - now)


def is_throttled(replicas: str, index: int, node_id: int) -> bool:
    """`replicas`: a topic's `follower.replication.throttled.replicas` (or the leader's), as it was set."""
    return bool(replicas) and (replicas == "*" or f"{index}:{node_id}" in replicas.replace(" ", "").split(","))
