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


class Debt:
    """As `CopyAllowance`, but whoever waits asks again and again, so that another rate holds at once for what is owed."""

    __slots__ = ("_asked_at", "_owed")

    def __init__(self) -> None:
        self._owed = 0.0
        self._asked_at: float | None = None

    def add(self, amount: int) -> None:
        self._owed += amount

    def wait_s(self, rate: int, now: float) -> float:
        if self._asked_at is not None:
            self._owed = max(self._owed - (now - self._asked_at) * rate, -BURST_S * rate)
        self._asked_at = now
        return max(0.0, self._owed / rate)
