"""Load generators over raw sockets: closed loop with a fixed number in flight, and open loop at a fixed rate."""

import selectors
import socket
import struct
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from tests.bench import frames
from tests.bench.frames import FetchFrame

Address = tuple[str, int]
IN_FLIGHT = 20
COORDINATOR_PASSING = (14, 15)
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE."""


class BenchError(Exception):
    """A server answered an error, or hung up: the run proves nothing."""


@dataclass(frozen=True)
class Throughput:
    requests: int
    bytes: int
    seconds: float

    @property
    def requests_per_s(self) -> float:
        return self.requests / self.seconds

    @property
    def megabytes_per_s(self) -> float:
        return self.bytes / self.seconds / 1e6


def connect(address: Address) -> socket.socket:
    sock = socket.create_connection(address, timeout=30)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def read_frame(sock: socket.socket) -> bytes:
    """One whole response, length prefix included."""
    head = _read_exactly(sock, 4)
    return head + _read_exactly(sock, struct.unpack(">i", head)[0])


def _read_exactly(sock: socket.socket, size: int) -> bytes:
    out = bytearray()
    while len(out) < size:
        piece = sock.recv(size - len(out))
        if not piece:
            raise BenchError("the server closed the connection")
        out += piece
    return bytes(out)


def error_at(position: int) -> Callable[[bytes], int]:
    return lambda answer: int(struct.unpack_from(">h", answer, position)[0])


def ask_until_taken(
    sock: socket.socket,
    frame: bytes,
    error_of: Callable[[bytes], int],
    passing: Collection[int],
    *,
    what: str,
    pace_s: float = 0.02,
    within_s: float = 60.0,
) -> bytes:
    """Sends again as long as the answer's error is one of `passing`, which pass by themselves; returns the first without any.
    Raises BenchError for others, and after `within_s`."""
    deadline = time.monotonic() + within_s
    while True:
        sock.sendall(frame)
        answer = read_frame(sock)
        error = error_of(answer)
        if not error:
            return answer
        if error not in passing or time.monotonic() > deadline:
            raise BenchError(f"{what} was answered with error {error}")
        time.sleep(pace_s)


def new_producer(sock: socket.socket) -> tuple[int, int]:
    """A producer id and its epoch. Waits while its coordinator loads, or is not there yet."""
    error_of = error_at(frames.INIT_PRODUCER_ID_ERROR_POSITION)
    answer = ask_until_taken(sock, frames.init_producer_id_frame(), error_of, COORDINATOR_PASSING, what="InitProducerId")
    return frames.producer_of(answer)


def first_answer(sock: socket.socket, frame: bytes, error_position: int) -> bytes:
    """The first answer about a topic that was created just now. Errors pass while it becomes leader."""
    return ask_until_taken(sock, frame, error_at(error_position), (3, 5, 6), what="the first request", pace_s=0.002, within_s=30)


def check_answer(answer: bytes, error_position: int) -> None:
    """Raises BenchError."""
    (error,) = struct.unpack_from(">h", answer, error_position)
    if error:
        raise BenchError(f"answered error {error}")


def produce_each(address: Address, topic: str, batches: Iterable[bytes], error_position: int) -> int:
    """Each of the batches once, to partition 0, many in flight. Returns how many were acknowledged: all."""
    sock, sent, done = connect(address), 0, 0
    for batch in batches:
        frame = frames.produce_frame(topic, 0, batch, -1)
        if not sent:
            first_answer(sock, frame, error_position)
            sent = done = 1
            continue
        if sent - done == IN_FLIGHT:
            check_answer(read_frame(sock), error_position)
            done += 1
        sock.sendall(frame)
        sent += 1
    for _ in range(sent - done):
        check_answer(read_frame(sock), error_position)
    sock.close()
    return sent


class _Producer:
    """One connection: sends one prebuilt frame again and again; all its responses have one size."""

    def __init__(self, address: Address, frame: bytes, error_position: int, in_flight: int) -> None:
        self.sock = connect(address)
        self.frame = memoryview(frame)
        self.error_position = error_position
        first = first_answer(self.sock, frame, error_position)
        self.response_size = len(first)
        self.in_flight = in_flight
        self.sock.setblocking(False)
        self.received = bytearray()
        self.done = 0
        self.sent = 0
        self.outgoing: list[memoryview] = []

    def _check(self, data: bytes | bytearray, start: int) -> None:
        (error,) = struct.unpack_from(">h", data, start + self.error_position)
        if error:
            raise BenchError(f"produce answered error {error}")

    def start(self) -> None:
        self.send(self.in_flight)

    def send(self, count: int) -> None:
        self.sent += count
        self.outgoing.extend([self.frame] * count)
        self.flush()

    def flush(self) -> None:
        while self.outgoing:
            try:
                sent = self.sock.sendmsg(self.outgoing[:64])
            except BlockingIOError:
                return
            while sent:
                head = self.outgoing[0]
                if sent >= len(head):
                    sent -= len(head)
                    self.outgoing.pop(0)
                else:
                    self.outgoing[0] = head[sent:]
                    sent = 0

    def readable(self, send_more: bool) -> None:
        data = self.sock.recv(262_144)
        if not data:
            raise BenchError("the server closed the connection")
        self.received += data
        whole = len(self.received) // self.response_size
        for index in range(whole):
            self._check(self.received, index * self.response_size)
        del self.received[: whole * self.response_size]
        self.done += whole
        if send_more:
            self.send(whole)


def produce(
    targets: Sequence[tuple[Address, bytes]], error_position: int, payload: int, in_flight: int, seconds: float, max_bytes: int
) -> Throughput:
    """Closed loop over one connection per target until `seconds` or `max_bytes` of batches have passed; then it drains."""
    producers = [_Producer(address, frame, error_position, in_flight) for address, frame in targets]
    selector = selectors.DefaultSelector()
    for producer in producers:
        selector.register(producer.sock, selectors.EVENT_READ, producer)
    started = time.perf_counter()
    limit = max(1, max_bytes // payload)
    for producer in producers:
        producer.start()
    measured: Throughput | None = None
    blocked: set[_Producer] = set()
    while measured is None or any(producer.done < producer.sent for producer in producers):
        if measured is None:
            elapsed = time.perf_counter() - started
            done = sum(producer.done for producer in producers)
            if elapsed >= seconds or done >= limit:
                measured = Throughput(done, done * payload, elapsed)
        for key, events in selector.select(timeout=5):
            producer = key.data
            if events & selectors.EVENT_READ:
                producer.readable(send_more=measured is None)
            if events & selectors.EVENT_WRITE:
                producer.flush()
        for producer in producers:
            if producer.outgoing and producer not in blocked:
                selector.modify(producer.sock, selectors.EVENT_READ | selectors.EVENT_WRITE, producer)
                blocked.add(producer)
            elif not producer.outgoing and producer in blocked:
                selector.modify(producer.sock, selectors.EVENT_READ, producer)
                blocked.discard(producer)
    for producer in producers:
        producer.sock.close()
    selector.close()
    return measured


class _Fetcher:
    """One connection, one request in flight, walking a partition's offsets round and round."""

    def __init__(
        self, address: Address, fetch: FetchFrame, error_position: int, offsets: Sequence[int], buffer: memoryview
    ) -> None:
        self.sock = connect(address)
        self.frame = bytearray(fetch.frame)
        self.position = fetch.offset_position
        self.error_position = error_position
        self.offsets = offsets
        self.turn = 0
        self.buffer = buffer
        self.got = 0
        self.need = 0
        self.done = 0
        self.bytes = 0

    def ask(self) -> None:
        struct.pack_into(">q", self.frame, self.position, self.offsets[self.turn % len(self.offsets)])
        self.turn += 1
        self.got = self.need = 0
        self.sock.sendall(self.frame)

    def readable(self) -> bool:
        """True when a whole response is there."""
        got = self.sock.recv_into(self.buffer[self.got :])
        if not got:
            raise BenchError("the server closed the connection")
        self.got += got
        if not self.need and self.got >= 4:
            self.need = 4 + struct.unpack_from(">i", self.buffer)[0]
        if not self.need or self.got < self.need:
            return False
        (error,) = struct.unpack_from(">h", self.buffer, self.error_position)
        if error:
            raise BenchError(f"fetch answered error {error}")
        self.done += 1
        self.bytes += self.need
        return True


def fetch(
    targets: Sequence[tuple[Address, FetchFrame]], error_position: int, offsets: Sequence[int], largest: int, seconds: float
) -> Throughput:
    """Closed loop, one request in flight on each connection; responses are received into memory and dropped."""
    fetchers = [
        _Fetcher(address, frame, error_position, offsets, memoryview(bytearray(largest + 65_536))) for address, frame in targets
    ]
    selector = selectors.DefaultSelector()
    for fetcher in fetchers:
        selector.register(fetcher.sock, selectors.EVENT_READ, fetcher)
    started = time.perf_counter()
    for fetcher in fetchers:
        fetcher.ask()
    while time.perf_counter() - started < seconds:
        for key, _ in selector.select(timeout=5):
            if key.data.readable():
                key.data.ask()
    elapsed = time.perf_counter() - started
    for fetcher in fetchers:
        fetcher.sock.close()
    selector.close()
    return Throughput(sum(f.done for f in fetchers), sum(f.bytes for f in fetchers), elapsed)


@dataclass(frozen=True)
class Latency:
    p50_ms: float
    p99_ms: float
    max_ms: float
    requests: int


def latency_at(address: Address, frame: bytes, error_position: int, rate: float, seconds: float) -> Latency:
    """Open loop: request i is due at i / rate, and its latency counts from then, so that a stall is not hidden."""
    sock = connect(address)
    size = len(first_answer(sock, frame, error_position))
    sock.setblocking(False)
    total = int(rate * seconds)
    sent = 0
    latencies: list[float] = []
    received = bytearray()
    selector = selectors.DefaultSelector()
    selector.register(sock, selectors.EVENT_READ)
    started = time.perf_counter()
    while len(latencies) < total:
        now = time.perf_counter() - started
        while sent < total and sent / rate <= now:
            sock.sendall(frame)
            sent += 1
        wait = max(0.0, sent / rate - (time.perf_counter() - started)) if sent < total else 5.0
        if not selector.select(timeout=wait):
            if sent == total:
                raise BenchError("no answer for five seconds")
            continue
        received += sock.recv(262_144)
        now = time.perf_counter() - started
        while len(received) >= size:
            (error,) = struct.unpack_from(">h", received, error_position)
            if error:
                raise BenchError(f"produce answered error {error}")
            latencies.append(now - len(latencies) / rate)
            del received[:size]
    sock.close()
    selector.close()
    latencies.sort()
    return Latency(
        latencies[len(latencies) // 2] * 1e3, latencies[int(len(latencies) * 0.99)] * 1e3, latencies[-1] * 1e3, len(latencies)
    )
