"""Which shard of an internal topic an id belongs to, as every Kafka client and broker computes it."""

from functools import lru_cache
from typing import Final

REMEMBERED: Final = 1 << 14
REMEMBERED_LENGTH_MAX: Final = 128
"""Of ids that clients choose: a megabyte or two at most. Each is asked for again and again."""


def shard_of(name: str, shards: int) -> int:
    """Of a group id, or a transactional id."""
    hashed = _remembered_hash(name) if len(name) <= REMEMBERED_LENGTH_MAX else java_hash(name)
    return abs_of_java(hashed) % shards


def java_hash(text: str) -> int:
    """`String.hashCode`: over UTF-16 units, wrapping at 32 bits."""
    units = text.encode("utf-16-be", errors="surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFF_FFFF
    return value - (1 << 32) if value >= 1 << 31 else value


_remembered_hash = lru_cache(REMEMBERED)(java_hash)


def abs_of_java(value: int) -> int:
    """Kafka's: that of the smallest number is 0."""
    return 0 if value == -(1 << 31) else abs(value)
