"""A token bucket: it fills at a rate up to a depth, and whoever takes tokens empties it. It never holds less than nothing."""


class TokenBucket:
    """The bucket begins empty, so that a manager that takes over mints no tokens.

    `rate`: tokens a second. `depth`: the most tokens that it holds. `now` are seconds that never go back.
    """

    __slots__ = ("_filled_at", "depth", "level", "rate")

    def __init__(self, rate: float, depth: float, now: float) -> None:
        self.rate = rate
        self.depth = depth
        self.level = 0.0
        self._filled_at = now

    def fill(self, now: float) -> None:
        """Adds what the rate gave since the last call."""
        self.level = min(self.depth, self.level + self.rate * (now - self._filled_at))
        self._filled_at = now

    def change(self, rate: float, depth: float, now: float) -> None:
        """Gives it another rate and depth. Tokens beyond the new depth are gone."""
        self.fill(now)
        self.rate, self.depth = rate, depth
        self.level = min(self.level, depth)

    def give_back(self, tokens: float) -> None:
        """Adds tokens that were taken and not used. Those beyond the depth are gone."""
        self.level = min(self.depth, self.level + tokens)

    def take(self, wanted: float, *, spared: float = 0.0) -> float:
        """Takes up to `wanted` tokens, but leaves `spared`. Returns how many it took."""
        taken = max(0.0, min(wanted, self.level - spared))
        self.level -= taken
        return taken
