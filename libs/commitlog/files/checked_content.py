"""The content of a small file that begins with a CRC-32C of the rest, made piece by piece while it is written.

So a thread that writes it holds one piece in memory, and lets the event loop run between two of them.
"""

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from crc32c import crc32c


class CheckedContent(NamedTuple):
    """`head`: packs `magic` and the CRC. `pieces` makes the pieces of the rest, anew for each write."""

    head: struct.Struct
    magic: int | bytes
    pieces: Callable[[], Iterator[bytes]]

    def placed(self) -> Iterator[tuple[int, bytes]]:
        """The pieces, each with its position. The head comes last, once the CRC is known."""
        position, crc = self.head.size, 0
        for piece in self.pieces():
            yield position, piece
            crc = crc32c(piece, crc)
            position += len(piece)
        yield 0, self.head.pack(self.magic, crc)

    @staticmethod
    def body_of(content: bytes, head: struct.Struct, magic: int | bytes) -> memoryview | None:
        """What follows the head of a file; None if its CRC does not match. Raises struct.error."""
        found, crc = head.unpack_from(content)
        body = memoryview(content)[head.size :]
        return body if found == magic and crc == crc32c(body) else None
