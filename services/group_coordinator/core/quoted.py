"""What clients are told in words may hold what clients said, but not all of it."""

from typing import Final

LENGTH_MAX: Final = 1000
"""In characters, of four bytes at most: three texts of that length in one message are fewer than the 32,767 of a Kafka string."""


def quoted(said: str) -> str:
    """A name or an expression, as it is or its beginning."""
    return said if len(said) <= LENGTH_MAX else f"{said[:LENGTH_MAX]}..."
