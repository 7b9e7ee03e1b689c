"""CPU of Produces that arrive together: `python -m tests.bench.produce_bursts`.

    [--parent CHECKOUT] [--one-process] [--idempotent] [--rounds 12] [--bursts 60] [--size 1024]

A client sends bursts of 1, 5 and 20 Produces to one partition, each burst in one write, and then reads all answers. The CPU of
each process is told in µs: of a burst, by its size, and of each further request of a burst. With `--parent`, the Penstock of
another checkout, set up by its `make setup`, takes turns. A figure is the lower quartile of the rounds. One JSON line per system,
then the median and the quartiles of what the change saves of a further request, round by round.
"""

import argparse
import json
import statistics
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.bench import frames, load
from tests.bench.cases import unique
from tests.bench.cpu import cpu_of
from tests.bench.sides import Side
from tests.bench.systems import start_one_process, start_penstock
from tests.support.requirements import ROOT

BURSTS: Final = (1, 5, 20)
WARM_ROUNDS: Final = 2
FIGURE: Final = "produce-bursts"


class Bursts:
    """Bursts to one system, and what they cost it: `costs[process][requests]` has µs for each round."""

    def __init__(self, side: Side, size: int, *, idempotent: bool) -> None:
        self.side = side
        self._topic = unique(FIGURE)
        side.create_topic(self._topic, 1)
        [leader] = side.leaders(self._topic)
        self._batch = bytearray(frames.batch_of_about(size, size, time.time_ns() // 1_000_000)[0])
        self._error_at = frames.produce_error_position(self._topic)
        self._socket = load.connect(leader)
        self._producer = load.new_producer(self._socket) if idempotent else None
        self._sequence = 0
        load.first_answer(self._socket, self._frames(1), self._error_at)
        self.costs: dict[str, dict[int, list[float]]] = {name: {count: [] for count in BURSTS} for name in side.pids}

    def run(self, bursts: int) -> None:
        """A round: so many bursts of each size."""
        for requests in BURSTS:
            sent = [self._frames(requests) for _ in range(bursts)]
            before = cpu_of(self.side.pids)
            for burst in sent:
                self._socket.sendall(burst)
                for _ in range(requests):
                    load.check_answer(load.read_frame(self._socket), self._error_at)
            after = cpu_of(self.side.pids)
            for name, of_size in self.costs.items():
                of_size[requests].append((after[name] - before[name]) * 1e6 / bursts)

    def forget(self) -> None:
        for of_size in self.costs.values():
            for rounds in of_size.values():
                rounds.clear()

    def further(self, name: str) -> list[float]:
        """What each further request cost, round by round."""
        least, most = BURSTS[0], BURSTS[-1]
        of_size = self.costs[name]
        return [(many - one) / (most - least) for one, many in zip(of_size[least], of_size[most], strict=True)]

    def figure(self) -> dict[str, object]:
        return {
            "name": FIGURE,
            "system": self.side.name,
            "cpu_us": {
                name: {
                    **{str(requests): round(_lower_quartile(rounds), 1) for requests, rounds in of_size.items()},
                    "each further": round(_lower_quartile(self.further(name)), 2),
                }
                for name, of_size in self.costs.items()
            },
        }

    def _frames(self, requests: int) -> bytes:
        if self._producer is None:
            return frames.produce_frame(self._topic, 0, bytes(self._batch), -1) * requests
        made = bytearray()
        for _ in range(requests):
            frames.sequenced(self._batch, self._producer, self._sequence)
            self._sequence += 1
            made += frames.produce_frame(self._topic, 0, bytes(self._batch), -1)
        return bytes(made)


def _lower_quartile(values: list[float]) -> float:
    return statistics.quantiles(values, n=4)[0]


def saved(parent: Bursts, change: Bursts) -> dict[str, object]:
    """The quartiles of what a further request costs less than at the parent, in µs, of rounds that followed each other."""
    pairs = {
        name: [before - after for before, after in zip(parent.further(name), change.further(name), strict=True)]
        for name in change.costs
    }
    return {
        "name": f"{FIGURE}-saved",
        "each further, µs": {name: [round(each, 2) for each in statistics.quantiles(of, n=4)] for name, of in pairs.items()},
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.bench.produce_bursts", description=__doc__)
    parser.add_argument("--parent", type=Path)
    parser.add_argument("--one-process", action="store_true")
    parser.add_argument("--idempotent", action="store_true")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--bursts", type=int, default=60)
    parser.add_argument("--size", type=int, default=1024)
    given = parser.parse_args()
    start = start_one_process if given.one_process else start_penstock
    checkouts = {"penstock": ROOT, **({"parent": given.parent} if given.parent is not None else {})}
    with ExitStack() as stack:
        sides = [stack.enter_context(start("replicated", checkout, name)) for name, checkout in checkouts.items()]
        systems = [Bursts(side, given.size, idempotent=given.idempotent) for side in sides]
        for turn in range(WARM_ROUNDS + given.rounds):
            for system in systems if turn % 2 else reversed(systems):
                if turn == WARM_ROUNDS:
                    system.forget()
                system.run(given.bursts)
        for system in systems:
            print(json.dumps(system.figure()), flush=True)
        if len(systems) > 1:
            print(json.dumps(saved(systems[1], systems[0]), ensure_ascii=False), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
