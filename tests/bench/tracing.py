"""What traces cost, on real processes: CPU of gateway and storage node per request. `python -m tests.bench.tracing`.

    [--rounds 20] [--window-s 1] [--parent CHECKOUT] [--only produce|fetch]

One cluster for each variant, all at once, and load on one of them at a time, in an order that alternates: without spans (`off`),
as it is set up (`default`: 1 % of requests, and what is slow), with every request traced and sent to a collector (`all`), and the
same with a collector that never answers (`all, hanging`).
`--parent` adds another checkout's Penstock, set up by its `make setup`. `off` and `off again` are the noise: two clusters that
do the same. One JSON line for each load, with the median of the rounds' ratios and the interval that has the true one with 95 %.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

from tests.bench import frames, load
from tests.bench.cases import KIB
from tests.bench.cpu import cpu_s
from tests.bench.overheads import interval
from tests.bench.sides import Side
from tests.support.cluster_harness import LocalCluster
from tests.support.process_memory import memory_bytes

PRODUCED, FETCHED, SIZE = "produced", "fetched", 1_000
"""Two topics: a Produce of a quick machine has deleted what a Fetch would read."""
SERVERS = ("gateway-1", "storage-1")
BASE = "off"
VARIANTS: dict[str, dict[str, str]] = {
    BASE: {"PENSTOCK_TRACE_SPANS_PER_SECOND": "0"},
    "off again": {"PENSTOCK_TRACE_SPANS_PER_SECOND": "0"},
    "default": {},
    "all": {"PENSTOCK_TRACE_SAMPLE_RATIO": "1"},
    "all, hanging": {"PENSTOCK_TRACE_SAMPLE_RATIO": "1"},
}
MARKS = {"default": 1.02, "all": 1.05}
FETCHED_BYTES = 64 * KIB
FILLING_S = 0.5
"""How long records are written before anything is measured."""


class Collector(BaseHTTPRequestHandler):
    """Takes what an exporter sends, and keeps nothing."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: it would cost as much as the rest."""


class HangingCollector(Collector):
    """Takes what an exporter sends, and never answers."""

    ends = Event()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.ends.wait()


class Rig:
    def __init__(self, cluster: LocalCluster) -> None:
        side = Side("penstock", cluster.bootstrap)
        side.create_topic(PRODUCED, 1, {"retention.bytes": str(64 << 20), "segment.bytes": str(16 << 20)})
        side.create_topic(FETCHED, 1)
        [self.leader] = side.leaders(PRODUCED)  # of both: there is one storage node
        self._pids = [cluster.pid(name) for name in SERVERS]
        self.produce(FILLING_S, FETCHED)

    def produce(self, seconds: float, topic: str = PRODUCED) -> float:
        """Microseconds of CPU for each Produce of 1 KB, many in flight."""
        frame = frames.produce_frame(topic, 0, frames.record_batch(1, SIZE, time.time_ns() // 1_000_000), -1)
        position = frames.produce_error_position(topic)
        return self._cpu_us(
            lambda: load.produce([(self.leader, frame)], position, len(frame), load.IN_FLIGHT, seconds, 1 << 40).requests
        )

    def fetch(self, seconds: float) -> float:
        """Microseconds of CPU for each Fetch of the first 64 KiB, one in flight."""
        target = (self.leader, frames.fetch_frame(FETCHED, 0, FETCHED_BYTES))
        position = frames.fetch_error_position(FETCHED)
        return self._cpu_us(lambda: load.fetch([target], position, [0], FETCHED_BYTES, seconds).requests)

    def gateway_mb(self) -> float:
        """The memory of the gateway, its own and what it has mapped."""
        return round((memory_bytes(self._pids[0]) or 0) / 1e6, 1)

    def _cpu_us(self, work: Callable[[], int]) -> float:
        before = sum(map(cpu_s, self._pids))
        requests = work()
        return (sum(map(cpu_s, self._pids)) - before) * 1e6 / requests


@contextmanager
def collecting(kind: type[Collector]) -> Iterator[str]:
    """The URL of a collector."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    server.daemon_threads = True
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        HangingCollector.ends.set()
        server.shutdown()
        server.server_close()


def measured(rigs: dict[str, Rig], work: str, given: argparse.Namespace) -> dict[str, object]:
    figures: dict[str, list[float]] = {variant: [] for variant in rigs}
    for turn in range(given.rounds + 1):
        for variant in list(rigs) if turn % 2 else reversed(rigs):
            figure = getattr(rigs[variant], work)(given.window_s)
            if turn:  # the first is for warming up
                figures[variant].append(figure)
    return {
        "name": f"tracing-{work}",
        "cpu_us": {variant: round(statistics.median(values), 2) for variant, values in figures.items()},
        "ratios": {variant: _ratio(values, figures[BASE]) for variant, values in figures.items() if variant != BASE},
        "marks": MARKS,
        "gateway_mb": {variant: rig.gateway_mb() for variant, rig in rigs.items()},
        "rounds": given.rounds,
        "seconds": given.window_s,
    }


def _ratio(values: list[float], base: list[float]) -> dict[str, float]:
    ratios = [one / other for one, other in zip(values, base, strict=True)]
    low, high = interval(sorted(ratios))
    return {"median": round(statistics.median(ratios), 3), "low": low, "high": high}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.tracing", description="The cost of traces, as JSON lines.")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--window-s", type=float, default=1.0)
    parser.add_argument("--parent", type=Path, help="a checkout of another commit")
    parser.add_argument("--only", choices=("produce", "fetch"))
    given = parser.parse_args(arguments)
    if given.rounds < 2 or given.window_s <= 0:
        parser.error("--rounds takes 2 or more, --window-s more than 0")
    with ExitStack() as stack:
        collectors = {
            "all": stack.enter_context(collecting(Collector)),
            "all, hanging": stack.enter_context(collecting(HangingCollector)),
        }
        rigs: dict[str, Rig] = {}
        for variant, environment in VARIANTS.items():
            if variant in collectors:
                environment = {**environment, "PENSTOCK_TRACE_ENDPOINT": collectors[variant]}
            rigs[variant] = Rig(stack.enter_context(LocalCluster(environment=environment)))
        if given.parent is not None:
            rigs["parent"] = Rig(stack.enter_context(LocalCluster(root=given.parent)))
        for work in ("produce", "fetch") if given.only is None else (given.only,):
            print(json.dumps(measured(rigs, work, given)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
