"""The loss of produce and consume rates while etcd is down: `python -m tests.bench.etcd_outage`, one JSON line.

    [--before 20] [--down 60] [--after 20] [--size 1024] [--in-flight 20] [--durability synced|replicated]

Three storage nodes, one partition with three replicas. One raw connection produces with acks=all in a closed loop, another one
consumes at its end, both from before etcd is killed until after it is back; neither connection is ever made anew. Figures are
requests and records of each phase, and their ratio to what was before.
"""

import argparse
import json
import struct
import threading
import time
from dataclasses import dataclass

from tests.bench import frames, load
from tests.bench.acknowledged import partition_of
from tests.compat.clients.admin import Admin
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually

TOPIC = "outage"
WARM_UP_S = 5.0
FETCH_BYTES = 1 << 20
RECORDS_AFTER_ERROR = 2 + 8 + 8 + 8 + 1 + 4
"""Error, high watermark, last stable offset, log start, no aborted transactions, preferred replica: then come the records."""


@dataclass(frozen=True)
class Sample:
    at: float
    produced: int
    consumed: int


class Traffic:
    """Two threads. Use as a context manager; `sample` raises what either met."""

    def __init__(self, address: load.Address, *, size: int, in_flight: int) -> None:
        self._address = address
        self._in_flight = in_flight
        self._batch, self.records_per_batch = frames.batch_of_about(size, 1000, time.time_ns() // 1_000_000)
        self._produced = self._consumed = 0
        self._failures: list[Exception] = []
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(work,)) for work in (self._produce, self._consume)]
        self.gap_s = 0.0
        """The longest time between two answers to produces since this was last set."""

    def __enter__(self) -> "Traffic":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def sample(self) -> Sample:
        if self._failures:
            raise self._failures[0]
        return Sample(time.monotonic(), self._produced, self._consumed)

    def _run(self, work: object) -> None:
        assert callable(work)
        try:
            work()
        except Exception as error:
            self._failures.append(error)

    def _produce(self) -> None:
        position = frames.produce_error_position(TOPIC)
        frame = frames.produce_frame(TOPIC, 0, self._batch, -1)
        sock = load.connect(self._address)
        size = len(load.first_answer(sock, frame, position))
        sock.sendall(frame * self._in_flight)
        received, last = bytearray(), time.monotonic()
        while not self._stopping.is_set():
            received += _received(sock.recv(262_144))
            whole = len(received) // size
            for index in range(whole):
                (error,) = struct.unpack_from(">h", received, index * size + position)
                if error:
                    raise load.BenchError(f"produce answered error {error}")
            if whole:
                del received[: whole * size]
                now = time.monotonic()
                self.gap_s, last = max(self.gap_s, now - last), now
                self._produced += whole
                sock.sendall(frame * whole)
        sock.close()

    def _consume(self) -> None:
        position = frames.fetch_error_position(TOPIC)
        fetch = frames.fetch_frame(TOPIC, 0, FETCH_BYTES)
        frame, offset = bytearray(fetch.frame), 0
        sock = load.connect(self._address)
        load.first_answer(sock, fetch.frame, position)
        while not self._stopping.is_set():
            struct.pack_into(">q", frame, fetch.offset_position, offset)
            sock.sendall(frame)
            answer = load.read_frame(sock)
            load.check_answer(answer, position)
            start, length = _uvarint(answer, position + RECORDS_AFTER_ERROR)
            whole = max(0, length - 1) // len(self._batch)
            if whole:
                (first,) = struct.unpack_from(">q", answer, start)
                if first != offset:
                    raise load.BenchError(f"offset {first} came where {offset} was asked for")
                offset += whole * self.records_per_batch
                self._consumed += whole * self.records_per_batch
        sock.close()


def _received(data: bytes) -> bytes:
    if not data:
        raise load.BenchError("the server closed the connection")
    return data


def _uvarint(data: bytes, at: int) -> tuple[int, int]:
    """(where it ends, its value)"""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return at, value
        shift += 7


def phase(traffic: Traffic, seconds: float) -> dict[str, float]:
    begun = traffic.sample()
    traffic.gap_s = 0.0
    until = begun.at + seconds
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, 1.0))
        traffic.sample()
    ended = traffic.sample()
    took = ended.at - begun.at
    return {
        "seconds": round(took, 1),
        "produce_per_s": round((ended.produced - begun.produced) / took),
        "consume_per_s": round((ended.consumed - begun.consumed) / took),
        "longest_gap_ms": round(traffic.gap_s * 1e3),
    }


def measure(given: argparse.Namespace) -> dict[str, object]:
    with LocalCluster(storage=3) as cluster:
        admin = Admin(cluster.bootstrap)
        admin.create(TOPIC, 1, {"durability": given.durability}, 3)
        eventually(lambda: partition_of(admin.client, TOPIC)[1] == 3)
        leader, _ = partition_of(admin.client, TOPIC)
        address = ("127.0.0.1", cluster.shape.bootstrap_port(1) + leader)
        with Traffic(address, size=given.size, in_flight=given.in_flight) as traffic:
            phase(traffic, WARM_UP_S)
            before = phase(traffic, given.before)
            cluster.kill("etcd")
            down = phase(traffic, given.down)
            cluster.start("etcd")
            cluster.wait_ready()
            after = phase(traffic, given.after)
            admin.create(f"{TOPIC}-2", 1, {}, 3)
        admin.close()
    ratios = {
        f"{what}_{name}": round(found[f"{what}_per_s"] / before[f"{what}_per_s"], 2)
        for what in ("produce", "consume")
        for name, found in (("down", down), ("after", after))
    }
    shape = {"size": given.size, "in_flight": given.in_flight, "durability": given.durability}
    return {"case": "etcd down", **shape, "before": before, "down": down, "after": after, "ratio": ratios}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.etcd_outage")
    for name, seconds in (("before", 20.0), ("down", 60.0), ("after", 20.0)):
        parser.add_argument(f"--{name}", type=float, default=seconds)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--in-flight", type=int, default=20)
    parser.add_argument("--durability", choices=("synced", "replicated"), default="synced")
    print(json.dumps(measure(parser.parse_args())), flush=True)


if __name__ == "__main__":
    main()
