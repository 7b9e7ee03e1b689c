"""How long a denial of authentication waits for its answer: longer with each one of an address, or of a user. No I/O.

Only denials wait. Whoever has the right password is let in at once, whatever others have tried from its address or in its name.
"""

from collections import OrderedDict
from typing import Final

LONGEST: Final = 16
"""The longest wait, as a multiple of the first one."""
FORGOTTEN_S: Final = 60.0
"""So long after its last denial, an address or a user begins anew."""
KNOWN_MAX: Final = 4096
"""Addresses and users that are remembered. Beyond, those whose last denial is oldest are forgotten."""
NAME_CHARACTERS: Final = 64
"""Longer names that begin alike count as one."""


class DenialDelays:
    """Those of one listener. Times are of one clock."""

    def __init__(self, first_s: float) -> None:
        self._first_s = first_s
        self._denials: OrderedDict[tuple[str, str], tuple[int, float]] = OrderedDict()
        """Their number and the time of the last one, by the kind of key and the key. The oldest come first."""

    def __len__(self) -> int:
        return len(self._denials)

    def next_s(self, host: str, user: str, now: float) -> float:
        """Notes a denial. `user`: as the client named it, whether or not it exists. Empty: it named none."""
        before = self._note(("host", host), now)
        if user:
            before = max(before, self._note(("user", user[:NAME_CHARACTERS]), now))
        return self._first_s * min(LONGEST, 1 << min(before, LONGEST))

    def _note(self, key: tuple[str, str], now: float) -> int:
        """The denials before this one."""
        before, last = self._denials.pop(key, (0, now))
        if now - last > FORGOTTEN_S:
            before = 0
        self._denials[key] = before + 1, now
        if len(self._denials) > KNOWN_MAX:
            self._denials.popitem(last=False)
        return before
