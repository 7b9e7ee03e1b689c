"""The account of one entity: its bucket, and what each gateway told of it. `now` are seconds that never go back."""

from math import exp
from typing import Final

from libs.cluster.client_quotas import CLIENT_KEYS, Entity
from libs.rpc.contracts.quotas import GRANT_S, Need
from libs.token_bucket import TokenBucket

RECENT_S: Final = 10.0
"""Use and throttle times are shown as averages. An event of so long ago counts a third of one of now."""
KNOWN_S_MIN: Final = 1.0
"""A gateway's first note may tell of use before it, so a rate is over this time or more."""
_MS: Final = 1000


class _RecentSum:
    """A sum whose parts fade: after `RECENT_S` a third of each is left."""

    __slots__ = ("_at", "_sum")

    def __init__(self, now: float) -> None:
        self._sum = 0.0
        self._at = now

    def add(self, amount: float, now: float) -> None:
        self._sum = self.at(now) + amount
        self._at = now

    def at(self, now: float) -> float:
        return self._sum * exp((self._at - now) / RECENT_S)


class Share:
    """What one gateway told of the entity."""

    __slots__ = ("_began_at", "_throttle_s", "_throttled", "_told_at", "_used", "debt")

    def __init__(self, now: float) -> None:
        self.debt = 0.0
        self._began_at = self._told_at = now
        self._used = _RecentSum(now)
        self._throttled: _RecentSum | None = None
        self._throttle_s = _RecentSum(now)

    def note(self, need: Need, now: float) -> None:
        self._told_at = now
        self._used.add(need.used, now)
        if need.throttled:
            self._throttled = self._throttled or _RecentSum(now)
            self._throttled.add(need.throttled, now)
            self._throttle_s.add(need.throttle_s, now)

    def owed(self, now: float) -> float:
        """The debt, as long as what the gateway told of it counts."""
        return self.debt if now - self._told_at <= GRANT_S else 0.0

    def used_per_s(self, now: float) -> float:
        known_s = RECENT_S * (1.0 - exp((self._began_at - now) / RECENT_S))
        return self._used.at(now) / max(known_s, KNOWN_S_MIN)

    def throttles(self, now: float) -> tuple[float, float]:
        """How many answers told a throttle time lately, and the sum of these times. Both fade alike."""
        return (self._throttled.at(now), self._throttle_s.at(now)) if self._throttled is not None else (0.0, 0.0)

    def view(self, now: float) -> dict[str, object]:
        return {
            "used_per_s": self.used_per_s(now),
            "owed": self.owed(now),
            "throttle_time_ms": _average_ms([self], now),
            "told_s_ago": now - self._told_at,
        }


class Account:
    """An entity's bucket, and the shares of gateways in its use."""

    __slots__ = ("bucket", "granted", "shares", "used_at")

    def __init__(self, bucket: TokenBucket, now: float) -> None:
        self.bucket = bucket
        self.shares: dict[int, Share] = {}
        """By gateway."""
        self.granted = 0.0
        self.used_at = now

    def share_of(self, gateway: int, now: float) -> Share:
        share = self.shares.get(gateway)
        if share is None:
            share = self.shares[gateway] = Share(now)
        return share

    def owed(self, now: float) -> float:
        """What all gateways together owe."""
        return self.owed_elsewhere(-1, now)

    def owed_elsewhere(self, gateway: int, now: float) -> float:
        return sum((share.owed(now) for other, share in self.shares.items() if other != gateway), 0.0)

    def used_per_s(self, now: float) -> float:
        """Tokens a second, on average lately."""
        return sum((share.used_per_s(now) for share in self.shares.values()), 0.0)

    def throttle_time_ms(self, now: float) -> float:
        """The average throttle time of answers that told one lately. 0.0: none did."""
        return _average_ms([*self.shares.values()], now)

    def view(self, entity: Entity, now: float) -> dict[str, object]:
        """What `/debug/quotas` shows."""
        kind, user, client_id = entity
        rate, owed, used = self.bucket.rate, self.owed(now), self.used_per_s(now)
        return {
            "kind": kind,
            "quota": CLIENT_KEYS[kind],
            "user": user,
            "client_id": client_id,
            "limit_per_s": rate,
            "used_per_s": used,
            "used_percent": 100 * used / rate,
            "throttle_time_ms": self.throttle_time_ms(now),
            "tokens": self.bucket.level,
            "owed": owed,
            "owed_s": owed / rate,
            "by_gateway": {gateway: share.view(now) for gateway, share in self.shares.items()},
            "granted": self.granted,
            "unused_s": now - self.used_at,
        }


def _average_ms(shares: list[Share], now: float) -> float:
    told = [share.throttles(now) for share in shares]
    count = sum(number for number, _ in told)
    return _MS * sum(seconds for _, seconds in told) / count if count else 0.0
