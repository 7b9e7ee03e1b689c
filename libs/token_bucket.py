"""A token bucket: it fills at a rate up to a depth, and whoever takes or spends tokens empties it. Pure."""


class TokenBucket:
    """`level` are the tokens in it when it is made, and after each call: below 0, it is in debt.

    `rate`: tokens a second. `depth`: the most tokens that it holds. `now` are seconds that never go back.
    """

    __slots__ = ("_filled_at", "depth", "level", "rate")

    def __init__(self, rate: float, depth: float, now: float, *, level: float = 0.0) -> None:
        self.rate = rate
        self.depth = depth
        self.level = level
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
        """Takes up to `wanted` tokens, but leaves `spared`. Returns how many it took. A bucket never comes into debt by it."""
        taken = max(0.0, min(wanted, self.level - spared))
        self.level -= taken
        return taken

    def spend(self, tokens: float) -> None:
        """Takes that many tokens, also those that are not there: they are its debt."""
        self.level -= tokens

    @property
    def debt_s(self) -> float:
        """The seconds until its debt is paid, if nobody spends more. 0.0: it has none."""
        return max(0.0, -self.level / self.rate)
