"""Files that a process reads again when they change, such as certificates that are renewed while it runs."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

LOOK_S: Final = 5.0
"""How often files are looked at for a change."""

Stamp = tuple[int, int, int] | None
"""What changes when a file is written or replaced. None: it is not there."""


class FollowedFiles:
    """Files whose changes are noticed from now on, also their removal. It reads directories only."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = tuple(paths)
        self._stamps = [_stamp(path) for path in self._paths]

    def changed(self) -> bool:
        """Whether one of them has changed since the last call. It may wait for a disk."""
        former, self._stamps = self._stamps, [_stamp(path) for path in self._paths]
        return self._stamps != former


async def keep_looking(look: Callable[[], Awaitable[None]]) -> None:
    """Looks again and again, until it is cancelled."""
    while True:
        await asyncio.sleep(LOOK_S)
        await look()


def _stamp(path: str) -> Stamp:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
