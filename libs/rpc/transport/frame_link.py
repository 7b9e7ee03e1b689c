"""A link between the two ends of one connection inside a process: frames go by as objects, without system calls.

A connection whose ends share an event loop still has its sockets, by which it begins and ends, and by which descriptors and file
ranges go. Everything else goes by the link, in its order, at the end of the iteration of the loop.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from libs.rpc.transport.event_loop import Outbox, outbox_of
from libs.rpc.transport.transport import Receiver, Stream

log = logging.getLogger("network")

LINKED_BYTES: Final = 524_288
"""The bytes of frames that one turn takes from a link, as from a socket."""


class LinkEnd:
    """One end. Its connection sets `on_frames`, sends by `send`, and takes what came by `take`."""

    __slots__ = ("_abort", "_announced", "_bytes", "_outbox", "_peer", "_sent", "_taken", "_withdrawn", "frames", "on_frames")

    def __init__(self, outbox: Outbox, abort: Callable[[Exception], None]) -> None:
        self._outbox = outbox
        self._abort = abort
        self._announced = False
        self._sent = self._taken = 0  # frames
        self._withdrawn = False
        self._bytes = 0  # of what has arrived and was not taken
        self._peer: LinkEnd | None = None
        self.frames: deque[tuple[Any, int]] = deque()
        """What has arrived and was not taken, in its order: frames and their bytes."""
        self.on_frames: Callable[[], None] | None = None
        """Called when something has arrived, never from inside a call of either end. If it leaves frames, it asks again by
        `announce`."""

    @property
    def untaken_bytes(self) -> int:
        """The bytes of the frames that the other end has not taken."""
        assert self._peer is not None
        return self._peer._bytes

    def take(self) -> tuple[Any, int]:
        """The first of `frames`, which is not empty, with its bytes."""
        taken = self.frames.popleft()
        self._taken += 1
        self._bytes -= taken[1]
        return taken

    def send(self, frame: tuple[Any, int]) -> int:
        """Gives the other end a frame and its bytes. It owns all that is in it from now on. Returns its number, from 1 on."""
        peer = self._peer
        assert peer is not None
        peer.frames.append(frame)
        peer._bytes += frame[1]
        peer.announce()
        self._sent += 1
        return self._sent

    def may_have_taken(self, number: int) -> bool:
        """Whether the other end has taken this frame, or may do so yet."""
        assert self._peer is not None
        return number <= self._peer._taken or not self._withdrawn

    def withdraw(self) -> None:
        """Takes back what the other end has not taken. Nothing may be sent any more."""
        assert self._peer is not None
        self._withdrawn = True
        self._peer._drop()

    def announce(self) -> None:
        """Has `on_frames` called at the end of this iteration of the loop."""
        if not self._announced:
            self._announced = True
            self._outbox.add_delivery(self._deliver)

    def end(self) -> None:
        """Drops what has arrived, and whatever comes later."""
        self.on_frames = None
        self._drop()

    def _drop(self) -> None:
        self.frames.clear()
        self._bytes = 0

    def _deliver(self) -> None:
        self._announced = False
        if self.on_frames is None:
            self._drop()
        elif self.frames:
            try:
                self.on_frames()
            except Exception as error:
                # The fault is the connection's own, as with a socket. It must not end the other connections.
                log.exception("receiver failed")
                self._abort(error)


class LinkableStream(Stream, Protocol):
    """A stream that may get a link before it starts."""

    link: LinkEnd | None

    def start(self, receiver: Receiver) -> None: ...


def join(
    stream: LinkableStream,
    accepted: LinkableStream,
    on_stream: Callable[[Stream], Receiver],
    receiver_factory: Callable[[Stream], Receiver],
) -> None:
    """Starts the two ends of a connection inside a process, with a link beside them if both receivers speak frames.

    `on_stream` makes the receiver of the end that is `accepted`, `receiver_factory` that of the other. If either raises, neither
    end has started.
    """
    stream.link, accepted.link = linked_ends(stream.abort, accepted.abort)
    receiver = on_stream(accepted)
    if accepted.link.on_frames is None:  # who accepts it speaks another protocol
        stream.link = None
    caller = receiver_factory(stream)
    accepted.start(receiver)
    stream.start(caller)


def linked_ends(abort_one: Callable[[Exception], None], abort_other: Callable[[Exception], None]) -> tuple[LinkEnd, LinkEnd]:
    """The two ends of a new link, both of the running loop. A connection that fails over what has arrived is aborted."""
    outbox = outbox_of(asyncio.get_running_loop())
    one, other = LinkEnd(outbox, abort_one), LinkEnd(outbox, abort_other)
    one._peer, other._peer = other, one
    return one, other
