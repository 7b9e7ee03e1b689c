"""Which shard of an internal topic an id belongs to, as every Kafka client and broker computes it."""


def shard_of(name: str, shards: int) -> int:
    """Of a group id, or a transactional id."""
    return abs_of_java(java_hash(name)) % shards


def java_hash(text: str) -> int:
    """`String.hashCode`: over UTF-16 units, wrapping at 32 bits."""
    units = text.encode("utf-16-be", errors="surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFF_FFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def abs_of_java(value: int) -> int:
    """Kafka's: that of the smallest number is 0."""
    return 0 if value == -(1 << 31) else abs(value)
