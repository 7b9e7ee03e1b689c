"""The arguments and lines of all stream programs, those in other languages included.

    MODE BOOTSTRAP TOPIC PARTITION REFRESH_MS PER_SECOND      MODE: produce or consume; REFRESH_MS 0: the client's default

A producer sends its sequence numbers as text, padded to 100 bytes. One line each, with the wall time in microseconds:

    a SEQUENCE US              acknowledged
    f SEQUENCE US ERROR        failed for good
    r SEQUENCE US OFFSET       received
"""

import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

SIZE = 100
LOOKS_S = 0.25
"""So late a record may be sent, as a part of the time between two: in all languages."""


@dataclass(frozen=True)
class Arguments:
    mode: str
    bootstrap: str
    topic: str
    partition: int
    refresh_ms: int
    per_second: int


def arguments() -> Arguments:
    mode, bootstrap, topic, *numbers = sys.argv[1:]
    return Arguments(mode, bootstrap, topic, *map(int, numbers))


def until_sigterm() -> threading.Event:
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: over.set())
    return over


def value(sequence: int) -> bytes:
    return b"%d" % sequence + b" " * (SIZE - len(str(sequence)))


class Pace:
    """The sequence numbers that are due by now. What could not be sent in time is sent at once, later."""

    def __init__(self, per_second: int) -> None:
        self._per_second, self._begun, self._next = per_second, time.monotonic(), 0
        self.look_every_s = max(0.001, LOOKS_S / per_second)
        """How long to wait before `due` is asked again. A look each millisecond took a tenth of a core."""

    def due(self) -> Iterator[int]:
        while self._next < (time.monotonic() - self._begun) * self._per_second:
            yield self._next
            self._next += 1


def acknowledged(sequence: int) -> None:
    print("a", sequence, time.time_ns() // 1000, flush=True)


def failed(sequence: int, error: object) -> None:
    print("f", sequence, time.time_ns() // 1000, type(error).__name__, str(error).replace("\n", " "), flush=True)


def received(data: bytes, offset: int) -> None:
    print("r", int(data), time.time_ns() // 1000, offset, flush=True)
