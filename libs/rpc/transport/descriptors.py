"""File descriptors that Unix sockets pass (SCM_RIGHTS). They never leak."""

import array
import os
import socket
from collections.abc import Iterable, Sequence
from typing import Any, Final

MAX_DESCRIPTORS = 16
"""The most descriptors of one message: a receive makes room for so many."""
ANCILLARY_SIZE = socket.CMSG_SPACE(MAX_DESCRIPTORS * 4)
# Plain integers: arithmetic with the enum's costs 2 µs a message.
CLOSED_ON_EXEC: Final = int(socket.MSG_CMSG_CLOEXEC)
CUT_OFF: Final = int(socket.MSG_CTRUNC)

Ancillary = Sequence[tuple[int, int, Any]]


class Descriptors:
    """Duplicates of descriptors that are about to be sent. Raises OSError, and then has duplicated none."""

    __slots__ = ("_fds",)

    def __init__(self, fds: Sequence[int]) -> None:
        self._fds = duplicate(fds)

    def ancillary(self) -> list[tuple[int, int, Any]]:
        return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", self._fds))]

    def close(self) -> None:
        close_all(self._fds)


def received_descriptors(ancillary: Ancillary, flags: int) -> list[int] | None:
    """The descriptors of a received message. The caller closes them. None: this process had no room for all of them, so the
    kernel dropped some. The others are closed.

    A receive ends with the first message that has descriptors, so what was dropped belongs to one message. Raises OSError when
    the peer sent more than `MAX_DESCRIPTORS`.
    """
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    if flags & CUT_OFF:
        close_all(fds)
        if len(fds) >= MAX_DESCRIPTORS:
            raise OSError(f"more than {MAX_DESCRIPTORS} descriptors in one message")
        return None
    return fds.tolist()


def duplicate(fds: Iterable[int]) -> list[int]:
    """Duplicates of all `fds`. With OSError, none is duplicated."""
    own: list[int] = []
    try:
        for fd in fds:
            own.append(os.dup(fd))
    except OSError:
        close_all(own)
        raise
    return own


def close_all(fds: Iterable[int]) -> None:
    for fd in fds:
        os.close(fd)
