"""Throttled replication (KIP-73): bytes of the last seconds against a rate, paid for afterwards."""

BURST_S = 1.0


class CopyAllowance:
    """The allowance of one node. A copy is never taken back: after too much, the node waits until the rate has caught up."""

    __slots__ = ("_paid_until",)

    def __init__(self) -> None:
        self._paid_until = 0.0

    def take(self, amount: int, rate: int, now: float) -> float:
        """Seconds to wait before the next copy."""
        self._paid_until = max(self._paid_until, now - BURST_S) + amount / rate
        return max(0.0, self._paid_until - now)


def is_throttled(replicas: str, index: int, node_id: int) -> bool:
    """Whether a replica is throttled. `replicas` is the topic's config for followers or for leaders, as it was set."""
    return bool(replicas) and (replicas == "*" or f"{index}:{node_id}" in replicas.replace(" ", "").split(","))


class Debt:
    """An allowance like `CopyAllowance` for a caller that asks repeatedly, so that a new rate holds at once for what is owed."""

    __slots__ = ("_checked_at", "_owed")

    def __init__(self) -> None:
        self._owed = 0.0
        self._checked_at: float | None = None

    def add(self, amount: int) -> None:
        self._owed += amount

    def wait_s(self, rate: int, now: float) -> float:
        if self._checked_at is not None:
            self._owed = max(self._owed - (now - self._checked_at) * rate, -BURST_S * rate)
        self._checked_at = now
        return max(0.0, self._owed / rate)
