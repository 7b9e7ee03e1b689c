"""File descriptors that ride on Unix sockets (SCM_RIGHTS), and never leak."""

import array
import os
import socket
from collections.abc import Iterable, Sequence
from typing import Any

MAX_DESCRIPTORS = 16
"""Per message: what one receive makes room for."""
ANCILLARY_SIZE = socket.CMSG_SPACE(MAX_DESCRIPTORS * 4)

Ancillary = Sequence[tuple[int, int, Any]]


class Descriptors:
    """Our own duplicates of what is about to be sent. Raises OSError, and has then duplicated nothing."""

    __slots__ = ("_fds",)

    def __init__(self, fds: Sequence[int]) -> None:
        self._fds = duplicate(fds)

    def ancillary(self) -> list[tuple[int, int, Any]]:
        return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", self._fds))]

    def close(self) -> None:
        close_all(self._fds)


def received_descriptors(ancillary: Ancillary, flags: int) -> list[int]:
    """The caller closes them. Raises OSError when the kernel dropped some: whose they were is unknown from there on."""
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    if flags & socket.MSG_CTRUNC:
        close_all(fds)
        raise OSError("descriptors were cut off")
    return fds.tolist()


def duplicate(fds: Iterable[int]) -> list[int]:
    """All or, with OSError, none."""
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
