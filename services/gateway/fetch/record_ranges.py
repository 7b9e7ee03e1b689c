"""From the file ranges that a storage node answered to the parts of a response: small ones read now, large ones for sendfile.

Dictionaries are by slot: the partition's place in the request.
"""

import os
from collections.abc import Sequence

from libs.rpc.contracts.storage import FileRange
from services.gateway.exchange import FilePart
from services.gateway.files import Files, OpenedFile
from services.gateway.nodes import StorageNode

READ_BYTES_MAX = 1 << 20
"""Of one response, read into memory; ranges beyond leave by sendfile whatever their size."""

Part = memoryview | FilePart
Ranges = dict[int, tuple[FileRange, ...]]
Opened = dict[int, list[OpenedFile]]


def pin(files: Files, node: StorageNode, incarnation: int, ranges: Ranges) -> Opened | None:
    """A pinned file for each range, None if any is not open yet."""
    opened: Opened = {}
    for slot, of_slot in ranges.items():
        pinned = opened[slot] = []
        for wanted in of_slot:
            file = files.pinned((node.node_id, incarnation, wanted.file_id))
            if file is None:
                release(opened)
                return None
            pinned.append(file)
    return opened


async def open_and_pin(files: Files, node: StorageNode, incarnation: int, ranges: Ranges) -> Opened:
    """Raises what `Files.open` raises, and leaves nothing pinned then."""
    opened: Opened = {}
    try:
        for slot, of_slot in ranges.items():
            opened[slot] = []
            for wanted in of_slot:
                opened[slot].append(await files.open(node, (node.node_id, incarnation, wanted.file_id)))
    except BaseException:
        release(opened)
        raise
    return opened


def parts(ranges: Ranges, opened: Opened, sendfile_bytes_min: int) -> dict[int, Sequence[Part]]:
    """What to send. Files stay pinned by the parts that need them."""
    budget = READ_BYTES_MAX
    found: dict[int, Sequence[Part]] = {}
    for slot, of_slot in ranges.items():
        of_partition: list[Part] = []
        for wanted, file in zip(of_slot, opened[slot], strict=True):
            part = part_of(file, wanted.position, wanted.length, min(sendfile_bytes_min, budget + 1))
            if not isinstance(part, FilePart):
                budget -= wanted.length
                file.release()
            of_partition.append(part)
        found[slot] = of_partition
    return found


def part_of(file: OpenedFile, position: int, length: int, sendfile_bytes_min: int) -> Part:
    """A part of the file for sendfile stays pinned, until it is sent."""
    data = _read_cached(file.descriptor, position, length) if length < sendfile_bytes_min else None
    return data if data is not None else FilePart(file.descriptor, position, length, file.release)


def length_of(of_partition: Sequence[Part]) -> int:
    return sum([part.length if isinstance(part, FilePart) else len(part) for part in of_partition])


def release(opened: Opened) -> None:
    for pinned in opened.values():
        for file in pinned:
            file.release()


def _read_cached(descriptor: int, position: int, length: int) -> memoryview | None:
    """None unless all of it is in the page cache: the loop never waits for a disk."""
    data = bytearray(length)
    try:
        got = os.preadv(descriptor, (data,), position, os.RWF_NOWAIT)
    except OSError:
        return None
    return memoryview(data) if got == length else None
