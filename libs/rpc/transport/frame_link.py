"""A link between the two ends of one connection inside a process: frames go by as objects, without system calls.

A connection whose ends share an event loop still has its sockets, by which it begins and ends, and by which descriptors and file
ranges go. Everything else goes by the link, in its order, at the end of the iteration of the loop.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from libs.rpc.transport.event_loop import Outbox, outbox_of

log = logging.getLogger("network")


class LinkEnd:
    """One end. Its connection sets `on_frames`, sends by `send`, and takes what came from `frames`."""

    __slots__ = ("_abort", "_announced", "_outbox", "_peer", "_sent", "frames", "on_frames")

    def __init__(self, outbox: Outbox, abort: Callable[[Exception], None]) -> None:
        self._outbox = outbox
        self._abort = abort
        self._announced = False
        self._sent = 0
        self._peer: LinkEnd | None = None
        self.frames: deque[Any] = deque()
        """What has arrived and was not taken, in its order."""
        self.on_frames: Callable[[], None] | None = None
        """Called when something has arrived, never from inside a call of either end. If it leaves frames, it asks again by
        `announce`."""

    def send(self, frame: Any) -> int:
        """Gives the other end a frame, which owns all that is in it from now on. Returns the frame's number, from 1 on."""
        peer = self._peer
        assert peer is not None
        peer.frames.append(frame)
        peer.announce()
        self._sent += 1
        return self._sent

    def has_taken(self, number: int) -> bool:
        """Whether the other end may have seen this frame."""
        assert self._peer is not None
        return number <= self._sent - len(self._peer.frames)

    def announce(self) -> None:
        """Has `on_frames` called at the end of this iteration of the loop."""
        if not self._announced:
            self._announced = True
            self._outbox.add_delivery(self._deliver)

    def end(self) -> None:
        """Drops what has arrived, and whatever comes later."""
        self.on_frames = None
        self.frames.clear()

    def _deliver(self) -> None:
        self._announced = False
        if self.on_frames is None:
            self.frames.clear()
        elif self.frames:
            try:
                self.on_frames()
            except Exception as error:
                # The fault is the connection's own, as with a socket. It must not end the other connections.
                log.exception("receiver failed")
                self._abort(error)


def linked_ends(abort_one: Callable[[Exception], None], abort_other: Callable[[Exception], None]) -> tuple[LinkEnd, LinkEnd]:
    """The two ends of a new link, both of the running loop. A connection that fails over what has arrived is aborted."""
    outbox = outbox_of(asyncio.get_running_loop())
    one, other = LinkEnd(outbox, abort_one), LinkEnd(outbox, abort_other)
    one._peer, other._peer = other, one
    return one, other
