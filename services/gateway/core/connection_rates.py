"""How fast connections are made: token buckets, of ports and of client addresses. No I/O.

Kafka averages over ten seconds (`quota.window.num`), so a burst passes that is ten seconds' worth. A bucket's depth is the same.
"""

from typing import Final

from libs.token_bucket import TokenBucket

BURST_S: Final = 10.0
"""The depth of a bucket, in seconds of its rate. It is one connection at least."""
DELAY_S_MAX: Final = 1.0
"""How long a connection is delayed at most, as by Kafka's `quota.window.size.seconds`."""
ADDRESSES_MAX: Final = 10_000
"""The addresses that are remembered. Clients choose them, so beyond it the one that connected longest ago is forgotten."""


class RateBucket:
    """The connections that may be made now. Times are seconds of one clock that never goes back."""

    __slots__ = ("_bucket",)

    def __init__(self, rate: float, now: float) -> None:
        """`rate`: connections a second, 0 included. A new bucket is full."""
        self._bucket = TokenBucket(rate, _depth(rate), now, level=_depth(rate))

    def is_full(self, now: float) -> bool:
        self._bucket.fill(now)
        return self._bucket.level >= self._bucket.depth

    def change(self, rate: float, now: float) -> None:
        """Goes on at another rate, with the tokens that it has."""
        self._bucket.change(rate, _depth(rate), now)

    def take(self, now: float) -> None:
        """Takes a token for a connection that was made, whether there is one or not. There is never a debt."""
        self._bucket.fill(now)
        self._bucket.take(1.0)

    def wait_s(self, now: float) -> float:
        """The seconds until there is a token, `DELAY_S_MAX` at most. 0.0: there is one."""
        bucket = self._bucket
        bucket.fill(now)
        lacking = 1.0 - bucket.level
        if lacking <= 0.0:
            return 0.0
        return min(DELAY_S_MAX, lacking / bucket.rate) if bucket.rate else DELAY_S_MAX


def _depth(rate: float) -> float:
    return max(1.0, BURST_S * rate)


class AddressRates:
    """The buckets of the addresses that have a limit and connected of late. One that is full again is forgotten."""

    def __init__(self) -> None:
        self._buckets: dict[str, tuple[float, RateBucket]] = {}
        """With the limit of the whole cluster. The address that connected longest ago comes first."""

    def __len__(self) -> int:
        return len(self._buckets)

    def delay_s(self, address: str, limit: float, gateways: int, now: float) -> float:
        """Takes a token of an address, whose limit is shared by so many gateways alike. If there is none, returns the seconds
        until there will be one, `DELAY_S_MAX` at most; else 0.0."""
        known = self._buckets.pop(address, None)
        if known is not None and known[0] == limit:
            bucket = known[1]
            bucket.change(limit / gateways, now)
        else:
            bucket = RateBucket(limit / gateways, now)
        self.forget_full(now)
        if len(self._buckets) >= ADDRESSES_MAX:
            del self._buckets[next(iter(self._buckets))]
        self._buckets[address] = limit, bucket
        wait_s = bucket.wait_s(now)
        if not wait_s:
            bucket.take(now)
        return wait_s

    def forget_full(self, now: float) -> None:
        """Forgets addresses whose buckets are full again. It costs little: it stops at the first whose bucket is not."""
        while self._buckets:
            address, (_, bucket) = next(iter(self._buckets.items()))
            if not bucket.is_full(now):
                return
            del self._buckets[address]
