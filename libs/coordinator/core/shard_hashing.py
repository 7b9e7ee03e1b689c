"""The hash that maps an id to its shard, as every Kafka client and broker computes it."""

from functools import lru_cache
from typing import Final

REMEMBERED: Final = 1 << 14
REMEMBERED_LENGTH_MAX: Final = 128
"""Longest id that is remembered. Clients choose ids, so the cache is bounded: a megabyte or two at most."""


def shard_of(name: str, shards: int) -> int:
    """The shard of a group id or a transactional id."""
    hashed = _remembered_hash(name) if len(name) <= REMEMBERED_LENGTH_MAX else java_hash(name)
    return abs_of_java(hashed) % shards


def java_hash(text: str) -> int:
    """Java's `String.hashCode`: over UTF-16 units, in 32 bits."""
    units = text.encode("utf-16-be", errors="surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFF_FFFF
    return value - (1 << 32) if value >= 1 << 31 else value


_remembered_hash = lru_cache(REMEMBERED)(java_hash)


def abs_of_java(value: int) -> int:
    """Kafka's `Utils.abs`: it maps the smallest number to 0."""
    return 0 if value == -(1 << 31) else abs(value)
