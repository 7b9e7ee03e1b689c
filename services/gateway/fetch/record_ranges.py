"""File ranges as parts of a response. Small ones are read into memory, large ones leave by sendfile.

Dictionaries are by slot, the partition's place in the request.
"""

from collections.abc import Sequence

from libs.rpc.contracts.storage import FileRange
from services.gateway.exchange.exchange import FilePart
from services.gateway.peers.file_descriptors import Files, OpenedFile
from services.gateway.peers.storage_nodes import StorageNode

READ_BYTES_MAX = 1 << 20
"""The bytes of one response that are read into memory. Ranges beyond them leave by sendfile, whatever their size."""

Part = memoryview | FilePart
Ranges = dict[int, tuple[FileRange, ...]]
Opened = dict[int, list[OpenedFile]]


def pin(files: Files, node: StorageNode, incarnation: int, ranges: Ranges) -> Opened | None:
    """A pinned file for each range. None: one of them is not open yet."""
    opened: Opened = {}
    for slot, slot_ranges in ranges.items():
        pinned = opened[slot] = []
        for file_range in slot_ranges:
            file = files.pinned((node.node_id, incarnation, file_range.file_id))
            if file is None:
                release(opened)
                return None
            pinned.append(file)
    return opened


async def open_and_pin(files: Files, node: StorageNode, incarnation: int, ranges: Ranges) -> Opened:
    """The same, after opening the missing files. Raises the errors of `Files.open`, and then no file stays pinned."""
    opened: Opened = {}
    try:
        for slot, slot_ranges in ranges.items():
            opened[slot] = []
            for file_range in slot_ranges:
                opened[slot].append(await files.open(node, (node.node_id, incarnation, file_range.file_id)))
    except BaseException:
        release(opened)
        raise
    return opened


def parts(ranges: Ranges, opened: Opened, sendfile_bytes_min: int) -> dict[int, Sequence[Part]]:
    """The parts of the response. A part that leaves by sendfile keeps its file pinned."""
    budget = READ_BYTES_MAX
    parts_by_slot: dict[int, Sequence[Part]] = {}
    for slot, slot_ranges in ranges.items():
        slot_parts: list[Part] = []
        for file_range, file in zip(slot_ranges, opened[slot], strict=True):
            part = part_of(file, file_range.position, file_range.length, min(sendfile_bytes_min, budget + 1))
            if not isinstance(part, FilePart):
                budget -= file_range.length
                file.release()
            slot_parts.append(part)
        parts_by_slot[slot] = slot_parts
    return parts_by_slot


def part_of(file: OpenedFile, position: int, length: int, sendfile_bytes_min: int) -> Part:
    """One part of a file. If it leaves by sendfile, the file stays pinned until it is sent."""
    # The page cache may lack some of it: the loop never waits for a disk.
    data = file.read_cached(position, length) if length < sendfile_bytes_min else None
    if data is not None and len(data) == length:
        return memoryview(data)
    return FilePart(file.descriptor, position, length, file.release)


def length_of(slot_parts: Sequence[Part]) -> int:
    return sum([part.length if isinstance(part, FilePart) else len(part) for part in slot_parts])


def release(opened: Opened) -> None:
    for pinned in opened.values():
        for file in pinned:
            file.release()
