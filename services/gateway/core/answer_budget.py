"""The budget for answers that clients do not read, over all connections. No I/O.

Only bytes in memory count. Ranges of files leave by sendfile and take none. Clients with a slow network are honest, so the first
half is for everybody. In the second half the gateway saves memory: it reads no records itself, and asks other hosts for less.
There, and only there, a connection is closed if its client has read nothing for some time. At the end of the second half, the
connection that has stood still longest is closed at once.
"""

from typing import Generic, TypeVar

INLINE_PART = 16
"""A fetch of bytes from another host may expect so many a part of what is left: 4 MiB of the default."""
INLINE_BYTES_MIN = 65_536

H = TypeVar("H")


class AnswerBudget(Generic[H]):
    """The unread bytes of each connection that has many, and the bytes that fetches from other hosts may bring."""

    __slots__ = ("_unread", "bytes_max", "expected", "used")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.used = 0
        self.expected = 0
        """The bytes that fetches which are under way may bring into memory."""
        self._unread: dict[H, tuple[int, int, float]] = {}  # bytes unread, bytes sent, the time since which these do not change

    @property
    def is_crowded(self) -> bool:
        return self.used > self.bytes_max // 2

    @property
    def is_exceeded(self) -> bool:
        """Whether a connection must be closed. The last one may have an answer of any size."""
        return self.used > self.bytes_max and len(self._unread) > 1

    def inline_bytes_max(self) -> int:
        """The bytes that one more fetch may bring into memory."""
        return max(INLINE_BYTES_MIN, (self.bytes_max - self.used - self.expected) // INLINE_PART)

    def note(self, holder: H, unread: int, sent: int, now: float) -> None:
        """Notes the bytes that the holder's client has left unread, and how many it has taken since it connected."""
        noted = self._unread.get(holder)
        if not unread:
            self.forget(holder)
        else:
            self.used += unread - (noted[0] if noted is not None else 0)
            since = noted[2] if noted is not None and noted[1] == sent else now
            self._unread[holder] = (unread, sent, since)

    def forget(self, holder: H) -> None:
        if (noted := self._unread.pop(holder, None)) is not None:
            self.used -= noted[0]

    def holders(self) -> list[H]:
        return list(self._unread)

    def stillest(self) -> tuple[H, float] | None:
        """The holder whose client has read nothing for the longest time, and since when."""
        holder = min(self._unread, key=lambda holder: self._unread[holder][2], default=None)
        return (holder, self._unread[holder][2]) if holder is not None else None
