"""What clients are told in words may hold what clients said, but not all of it."""

from collections.abc import Sequence
from typing import Final

LENGTH_MAX: Final = 1000
"""In characters, of four bytes at most: three texts of that length in one message are fewer than the 32,767 of a Kafka string."""

LISTED_MAX: Final = 3


def quoted(said: str) -> str:
    """A name or an expression, as it is or its beginning."""
    return said if len(said) <= LENGTH_MAX else f"{said[:LENGTH_MAX]}..."


def listed(said: Sequence[str]) -> str:
    """The first three, and how many more there are."""
    more = len(said) - LISTED_MAX
    return ", ".join(said[:LISTED_MAX]) + (f" and {more} more" if more > 0 else "")
