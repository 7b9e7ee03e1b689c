"""`make bench`: Penstock beside a warm Apache Kafka, alternating, one JSON line per case.

    python -m tests.bench [--raw] [--java] [--synced] [--replicated] [--random] [--opened] [--groups] [--replicated-groups]
                          [--memory] [--startup] [--recovery] [--partitions] [--compaction] [--background]
                          [--transactions] [--transactional-ids] [--overheads]
                          [--only SUBSTRING] [--rounds 7] [--seconds 2] [--warm 40] [--durability replicated|synced]
                          [--parent CHECKOUT]

Without a group, all of them; `--durability` is that of raw, java and replicated. What is replicated compares three
nodes with three. `--parent` compares with the Penstock of another checkout, set up by its `make setup`, in place of
Kafka: what a change costs. Machines are shared and noisy: quote the ratio, which is the median of the pairs, never one absolute
figure. `cpu_us` is CPU time of each server process per request (or record), a median too.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tests.bench.background import background
from tests.bench.cases import Case, raw_cases
from tests.bench.cpu import cpu_of
from tests.bench.footprint import memory, startup
from tests.bench.group_cases import group_cases, replicated_group_cases
from tests.bench.java import java_cases
from tests.bench.log_figures import compaction, recovery
from tests.bench.opened_cases import opened_cases
from tests.bench.overheads import overheads
from tests.bench.partitions import many_partitions
from tests.bench.replicated_cases import replicated_cases
from tests.bench.sides import Side
from tests.bench.storage_cases import random_read_cases, synced_cases
from tests.bench.systems import start_kafka, start_penstock, start_replicated_kafka, start_replicated_penstock
from tests.bench.transactional_ids import transactional_ids
from tests.bench.transactions import transactions

CASES: dict[str, Callable[[], list[Case]]] = {
    "raw": raw_cases,
    "java": java_cases,
    "synced": synced_cases,
    "random": random_read_cases,
    "opened": opened_cases,
    "replicated": replicated_cases,
    "groups": group_cases,
    "replicated_groups": replicated_group_cases,
}
REPLICATED = ("replicated", "replicated_groups")
STARTS = {
    False: (start_kafka, start_penstock),
    True: (start_replicated_kafka, start_replicated_penstock),
}
"""Kafka, Penstock: one node each, or three."""
DURABILITY = {"synced": "synced", "random": "replicated"}
FIGURES: dict[str, Callable[[], list[dict[str, object]]]] = {
    "memory": memory,
    "startup": startup,
    "recovery": recovery,
    "partitions": many_partitions,
    "compaction": compaction,
    "background": background,
    "transactions": transactions,
    "transactional_ids": transactional_ids,
    "overheads": overheads,
}


class Turns:
    """The turns of one side in one case."""

    def __init__(self, case: Case, side: Side) -> None:
        self.case = case
        self.side = side
        self.prepared = case.prepare(side)
        self.values: list[float] = []
        self._cpu_us: list[dict[str, float]] = []

    def run(self, seconds: float, *, counted: bool) -> None:
        before = cpu_of(self.side.pids)
        measured = self.case.run(self.side, self.prepared, seconds)
        after = cpu_of(self.side.pids)
        if counted:
            self.values.append(measured.value)
            self._cpu_us.append({name: (after[name] - before[name]) * 1e6 / measured.requests for name in after})

    @property
    def cpu_us(self) -> dict[str, float]:
        return {name: round(statistics.median(turn[name] for turn in self._cpu_us), 2) for name in self.side.pids}

    def clean(self) -> None:
        self.case.clean(self.side, self.prepared)


def compare(case: Case, penstock: Side, other: Side, rounds: int, seconds: float) -> dict[str, object]:
    """Runs the case in turn on both sides, the first turn uncounted; the order within a pair alternates too."""
    ours, theirs = Turns(case, penstock), Turns(case, other)
    try:
        for turn in range(rounds + 1):
            for side in (theirs, ours) if turn % 2 else (ours, theirs):
                side.run(seconds, counted=turn > 0)
    finally:
        ours.clean()
        theirs.clean()
    ratios = sorted(our_value / their_value for our_value, their_value in zip(ours.values, theirs.values, strict=True))
    return {
        "name": case.name,
        penstock.name: round(statistics.median(ours.values), 3),
        other.name: round(statistics.median(theirs.values), 3),
        "ratio": round(statistics.median(ratios), 3),
        "ratio_min": round(ratios[0], 3),
        "ratio_max": round(ratios[-1], 3),
        "unit": case.unit,
        "mark": case.mark if other.name == "kafka" else "",
        "durability": {penstock.name: penstock.durability, other.name: other.durability},
        "settings": case.settings,
        "rounds": rounds,
        "seconds": seconds,
        "cpu_us": {penstock.name: ours.cpu_us, other.name: theirs.cpu_us},
        "per": case.per,
    }


def warm(sides: list[Side], cases: list[Case], seconds: float) -> None:
    """At least `seconds` of every kind of load on each side: a cold JIT is two to three times slower."""
    for side in sides:
        prepared = [(case, case.prepare(side)) for case in cases]
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for case, data in prepared:
                case.run(side, data, 1.0)
        for case, data in prepared:
            case.clean(side, data)


def _compare_all(cases: list[Case], durability: str, options: argparse.Namespace, *, replicated: bool) -> None:
    start_kafka_side, start_ours = STARTS[replicated]
    with ExitStack() as stack:
        if options.parent is not None:
            other = stack.enter_context(start_ours(durability, options.parent, "parent"))
        else:
            other = stack.enter_context(start_kafka_side(durability))
        penstock = stack.enter_context(start_ours(durability))
        warm([penstock, other], cases, options.warm)
        for case in cases:
            print(json.dumps(compare(case, penstock, other, options.rounds, options.seconds)), flush=True)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="tests.bench", description="Penstock beside Apache Kafka, as JSON lines.")
    for group in (*CASES, *FIGURES):
        parser.add_argument(f"--{group.replace('_', '-')}", action="store_true")
    parser.add_argument("--only", default="", help="of the cases, those with this in their name")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--warm", type=float, default=40.0)
    parser.add_argument("--durability", choices=["replicated", "synced"], default="replicated")
    parser.add_argument("--parent", type=Path, help="a checkout of another commit, in place of Kafka")
    options = parser.parse_args(arguments)
    wanted = [group for group in (*CASES, *FIGURES) if getattr(options, group)] or [*CASES, *FIGURES]
    chosen: dict[tuple[str, bool], list[Case]] = {}
    for group in wanted:
        if group in CASES:
            cases = [case for case in CASES[group]() if options.only in case.name]
            chosen.setdefault((DURABILITY.get(group, options.durability), group in REPLICATED), []).extend(cases)
    figures = [FIGURES[group] for group in wanted if group in FIGURES and not options.only]
    if not any(chosen.values()) and not figures:
        parser.error(f"no case has {options.only!r} in its name")
    for (durability, replicated), cases in chosen.items():
        if cases:
            _compare_all(cases, durability, options, replicated=replicated)
    for measure in figures:
        for figure in measure():
            print(json.dumps(figure), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
