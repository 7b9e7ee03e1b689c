"""Kafka's offset checkpoints, with lines of our own that Kafka takes for entries of partitions that do not exist.

**A checksum.** Kafka's text form has none, and a changed digit is another offset: a log would begin there, and earlier records
would be removed. **Topic ids.** Kafka names the partition alone, so an entry would pass from a deleted topic to the next one of
its name. Both are in the same file, since two files cannot be replaced together. A file without a checksum is Kafka's, and is
believed.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from crc32c import crc32c

from libs.commitlog.files.durable_files import format_checkpoint, parse_checkpoint
from libs.commitlog.model.errors import DirectoryDamaged

_OURS = "#"  # no topic's name begins with it
_CHECKSUM = "#crc32c"
_TOPIC_ID = "#topic-id"
KAFKAS: Final = b""
"""In place of an id: Kafka wrote the file."""
FORMER_VERSIONS: Final = b"-"
"""In place of an id: the file is ours, from before it had ids."""

Name = tuple[str, int]
"""Topic and partition."""


class Entry(NamedTuple):
    """An offset in the log of one topic."""

    offset: int
    topic_id: bytes = KAFKAS

    def is_of(self, topic_id: bytes) -> bool:
        """Whether it may be of that topic."""
        return self.topic_id in (topic_id, KAFKAS, FORMER_VERSIONS)


Entries = Mapping[Name, Entry]


def format_entries(entries: Entries) -> bytes:
    ordered = sorted(entries.items())
    lines = [f"{topic} {partition} {entry.offset}" for (topic, partition), entry in ordered]
    partitions: dict[tuple[str, bytes], list[int]] = {}
    for (topic, partition), entry in ordered:
        if entry.topic_id not in (KAFKAS, FORMER_VERSIONS):
            partitions.setdefault((topic, entry.topic_id), []).append(partition)
    lines += [f"{_TOPIC_ID}:{topic_id.hex()}:{topic}:{_ranges(of)} 0 0" for (topic, topic_id), of in partitions.items()]
    return format_checkpoint([*lines, f"{_CHECKSUM} 0 {_checksum(lines)}"])


def parse_entries(content: bytes, path: str) -> dict[Name, Entry]:
    """Raises DirectoryDamaged."""
    fields = parse_checkpoint(content, path)
    lines = [" ".join(line) for line in fields if line[0] != _CHECKSUM]
    try:
        checksums = [int(checksum) for name, _, checksum in fields if name == _CHECKSUM]
        offsets = {(topic, int(partition)): int(offset) for topic, partition, offset in fields if not topic.startswith(_OURS)}
        topic_ids = dict(_topic_ids([name for name, _, _ in fields if name.startswith(_TOPIC_ID)], len(offsets)))
    except ValueError as error:
        raise DirectoryDamaged(f"{path}: {error}") from error
    if checksums not in ([], [_checksum(lines)]):
        raise DirectoryDamaged(f"{path}: its checksum says that it was changed")
    unnamed = FORMER_VERSIONS if checksums else KAFKAS
    return {name: Entry(offset, topic_ids.get(name, unnamed)) for name, offset in offsets.items()}


def parse_offsets(content: bytes, path: str) -> dict[Name, int]:
    """The offsets alone. Raises DirectoryDamaged."""
    return {name: entry.offset for name, entry in parse_entries(content, path).items()}


def _topic_ids(names: Iterable[str], most: int) -> Iterator[tuple[Name, bytes]]:
    """The ids of partitions. Raises ValueError where they are more than `most`: one changed digit may name a thousand million."""
    for name in names:
        _, topic_id, topic, ranges = name.split(":")
        for span in ranges.split(","):
            first, _, last = span.partition("-")
            most -= max(0, int(last or first) - int(first) + 1)
            if most < 0:
                raise ValueError(f"{span} names partitions that have no offset")
            for partition in range(int(first), int(last or first) + 1):
                yield (topic, partition), bytes.fromhex(topic_id)


def _ranges(partitions: Iterable[int]) -> str:
    """Rising numbers, such as `0-5,7`."""
    spans: list[list[int]] = []
    for partition in partitions:
        if spans and spans[-1][1] == partition - 1:
            spans[-1][1] = partition
        else:
            spans.append([partition, partition])
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in spans)


def _checksum(lines: list[str]) -> int:
    return crc32c("\n".join(lines).encode())
