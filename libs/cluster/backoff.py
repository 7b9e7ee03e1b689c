"""Delays between attempts."""


class Backoff:
    """Doubles from `first_s` to `most_s`. Without jitter: each process retries alone, and a replay must give the same times."""

    __slots__ = ("_first_s", "_most_s", "_next_s")

    def __init__(self, first_s: float = 0.05, most_s: float = 1.0) -> None:
        self._first_s = self._next_s = first_s
        self._most_s = most_s

    def next_s(self) -> float:
        now, self._next_s = self._next_s, min(self._next_s * 2, self._most_s)
        return now

    def reset(self) -> None:
        self._next_s = self._first_s
