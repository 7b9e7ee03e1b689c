"""The metadata hash of KIP-1101: one number for all facts that a group needs about its topics. It equals Kafka 4.2's."""

import struct
from collections.abc import Iterable
from typing import Final

import xxhash

from services.group_coordinator.core.model.topics_view import TopicsView, TopicView

_MAGIC: Final = b"\0"
NO_TOPICS: Final = 0


class TopicHashes:
    """The hashes of topics, cached."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[TopicView, int]] = {}

    def of(self, names: Iterable[str], topics: TopicsView) -> int:
        """The hash of these topics, signed, 64 bits. Missing topics do not count."""
        existing = sorted(name for name in names if name in topics.by_name)
        if not existing:
            return NO_TOPICS
        return _hash(b"".join(struct.pack("<Q", self._topic(topics.by_name[name]) & _MASK) for name in existing))

    def _topic(self, topic: TopicView) -> int:
        known = self._known.get(topic.name)
        if known is None or known[0] is not topic:
            known = self._known[topic.name] = topic, topic_hash(topic)
        return known[1]


def topic_hash(topic: TopicView) -> int:
    """The hash of a topic's id, name, number of partitions and racks. Kafka counts a rack once per replica in it, this once."""
    parts = [_MAGIC, topic.topic_id[7::-1], topic.topic_id[:7:-1], _string(topic.name), struct.pack("<i", topic.partitions)]
    for partition in range(topic.partitions):
        parts.append(struct.pack("<i", partition))
        racks = topic.racks[partition] if partition < len(topic.racks) else frozenset[str]()
        for rack in sorted(racks):
            parts += [struct.pack("<i", len(rack.encode("utf-16-le")) // 2), _string(rack)]
    return _hash(b"".join(parts))


def _string(text: str) -> bytes:
    """A string in hash4j's encoding: UTF-16, then its length."""
    encoded = text.encode("utf-16-le", "surrogatepass")
    return encoded + struct.pack("<i", len(encoded) // 2)


_MASK: Final = 2**64 - 1


def _hash(data: bytes) -> int:
    number = xxhash.xxh3_64_intdigest(data)
    return number - 2**64 if number >= 2**63 else number
