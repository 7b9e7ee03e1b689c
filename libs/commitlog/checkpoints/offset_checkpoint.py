"""Kafka's offset checkpoints, with a checksum line that Kafka takes for the entry of a partition that does not exist.

Kafka's text form has no checksum, and a changed digit is another offset: a log would begin there, and earlier records would be
removed. The checksum is in the same file, since two files cannot be replaced together. A file without one is Kafka's, and is
believed.
"""

from collections.abc import Mapping

from crc32c import crc32c

from libs.commitlog.files.durable_files import format_checkpoint, parse_checkpoint
from libs.commitlog.model.errors import DirectoryDamaged

_CHECKSUM = "#crc32c"  # no topic can have this name
Offsets = Mapping[tuple[str, int], int]


def format_offsets(offsets: Offsets) -> bytes:
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items())]
    return format_checkpoint([*lines, f"{_CHECKSUM} 0 {_checksum(lines)}"])


def parse_offsets(content: bytes, path: str) -> dict[tuple[str, int], int]:
    """Raises DirectoryDamaged."""
    entries = parse_checkpoint(content, path)
    lines = [" ".join(entry) for entry in entries if entry[0] != _CHECKSUM]
    try:
        checksums = [int(checksum) for name, _, checksum in entries if name == _CHECKSUM]
        offsets = {(topic, int(partition)): int(offset) for topic, partition, offset in entries if topic != _CHECKSUM}
    except ValueError as error:
        raise DirectoryDamaged(f"{path}: {error}") from error
    if checksums not in ([], [_checksum(lines)]):
        raise DirectoryDamaged(f"{path}: its checksum says that it was changed")
    return offsets


def _checksum(lines: list[str]) -> int:
    return crc32c("\n".join(lines).encode())
