"""What quotas promise, judged by what reached storage: how much of a limit was admitted, where and when."""

from bisect import bisect_left
from dataclasses import dataclass, field
from math import inf
from typing import Final

BURST_S: Final = 0.5
IN_HAND_S: Final = 0.2
"""The slice and the credit of one gateway. Written down here anew: a check that asks the code would follow its faults."""
CREDIT_S: Final = 0.1
"""A time may begin with so much debt."""
GRANT_S: Final = 1.0
USED_MIN: Final = 0.98
QUIET_S_MIN: Final = 4.0
"""A shorter time tells little of what is used."""


@dataclass
class Admitted:
    """The bytes that one entity got through, in the order of their times. Seconds of the run."""

    times: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    gateways: list[int] = field(default_factory=list)

    def note(self, at: float, size: int, gateway: int) -> None:
        self.times.append(at)
        self.sizes.append(size)
        self.gateways.append(gateway)

    def between(self, start: float, end: float) -> int:
        return sum(self.sizes[bisect_left(self.times, start) : bisect_left(self.times, end)])

    def excess(self, rate: float, start: float, end: float, gateway: int | None = None) -> float:
        """The most by which any time within these admitted more bytes than `rate` gives in it. `gateway`: by this one alone."""
        worst, lowest, total = 0.0, inf, 0
        for at in range(bisect_left(self.times, start), bisect_left(self.times, end)):
            if gateway is None or self.gateways[at] == gateway:
                lowest = min(lowest, total - rate * self.times[at])
                total += self.sizes[at]
                worst = max(worst, total - rate * self.times[at] - lowest)
        return worst


@dataclass(frozen=True)
class Limited:
    """A time in which one limit holds, and every gateway knows it. `rate`: bytes a second."""

    start: float
    end: float
    rate: float


@dataclass(frozen=True)
class Cut:
    """A time in which a gateway hears no quota manager."""

    start: float
    end: float
    gateway: int


@dataclass
class Promise:
    """That of one entity. `in_flight`: the most bytes that its clients have sent and not been answered for, at any time."""

    client_id: str
    admitted: Admitted
    gateways: int
    in_flight: float
    limited: list[Limited] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)
    troubled: list[tuple[float, float]] = field(default_factory=list)
    """When a fault, or what follows from it, may keep some of the limit unused."""
    forgiven: float = 0.0
    """What its clients get in a second whatever they owe: a mute for work is 1 s at most."""
    lost_debts: int = 0
    """Gateways that were killed: what was owed there is forgotten, no more than what was in flight."""

    def broken(self) -> list[str]:
        return [*self.exceeded(), *self._unused()]

    def exceeded(self) -> list[str]:
        return [*self._beyond(), *self._beyond_alone()]

    def _beyond(self) -> list[str]:
        """Over any time T: limit x T, the burst, what gateways have in hand, and requests received already."""
        found = []
        for each in self.limited:
            excess = self.admitted.excess(each.rate + self.forgiven, each.start, each.end)
            allowed = each.rate * (BURST_S + self.gateways * IN_HAND_S) + self.in_flight * (1 + self.lost_debts)
            if excess > allowed:
                found.append(
                    f"{self.client_id} exceeds {each.rate:.0f} a second by {excess:.0f} bytes between {each.start:.1f} and "
                    f"{each.end:.1f} s, and {allowed:.0f} are allowed"
                )
        return found

    def _beyond_alone(self) -> list[str]:
        """A gateway that is cut off admits limit / N."""
        found = []
        for cut in self.cuts:
            for each in self.limited:
                start, end = max(cut.start + GRANT_S, each.start), min(cut.end, each.end)
                rate = each.rate / self.gateways + self.forgiven
                excess = self.admitted.excess(rate, start, end, cut.gateway)
                allowed = each.rate * IN_HAND_S + self.in_flight
                if excess > allowed:
                    found.append(
                        f"gateway {cut.gateway} is cut off and exceeds its part of {self.client_id} by {excess:.0f} bytes, and "
                        f"{allowed:.0f} are allowed"
                    )
        return found

    def _unused(self) -> list[str]:
        """98 % of the limit are used outside of trouble, since the demand exceeds it."""
        found = []
        for each in self.limited:
            for start, end in _quiet(each, self.troubled):
                wanted = each.rate * (USED_MIN * (end - start) - CREDIT_S)
                used = self.admitted.between(start, end)
                if end - start > QUIET_S_MIN and used < wanted:
                    found.append(
                        f"{self.client_id} uses {used / each.rate / (end - start):.1%} of {each.rate:.0f} a second between "
                        f"{start:.1f} and {end:.1f} s"
                    )
        return found


def _quiet(limited: Limited, troubled: list[tuple[float, float]]) -> list[tuple[float, float]]:
    quiet, start = [], limited.start
    for begins, ends in sorted(troubled):
        if begins > start:
            quiet.append((start, min(begins, limited.end)))
        start = max(start, ends)
    if start < limited.end:
        quiet.append((start, limited.end))
    return [(begins, ends) for begins, ends in quiet if ends > begins]
