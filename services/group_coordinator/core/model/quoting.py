"""Texts of clients, shortened for messages to clients."""

from collections.abc import Sequence
from typing import Final

LENGTH_MAX: Final = 1000
"""Longest text, in characters of four bytes at most. Three such texts in one message stay below the 32,767 bytes of a Kafka
string."""

LISTED_MAX: Final = 3


def quoted(text: str) -> str:
    """A name or an expression, or its beginning."""
    return text if len(text) <= LENGTH_MAX else f"{text[:LENGTH_MAX]}..."


def listed(texts: Sequence[str]) -> str:
    """The first three texts, and the number of the others."""
    more = len(texts) - LISTED_MAX
    return ", ".join(texts[:LISTED_MAX]) + (f" and {more} more" if more > 0 else "")
