"""`make bench`: Penstock beside a warm Apache Kafka, alternating, one JSON line per case.

    python -m tests.bench [--lean] [--lean-replicated] [--raw] [--java] [--synced] [--replicated] [--random] [--opened]
                          [--groups] [--replicated-groups]
                          [--memory] [--startup] [--recovery] [--partitions] [--compaction] [--background]
                          [--transactions] [--transactional-ids] [--overheads]
                          [--only SUBSTRING,…] [--rounds 7] [--seconds 2] [--warm 40] [--durability replicated|synced]
                          [--parent CHECKOUT] [--one-process] [--report FILE.html]

Without a group, all of them; `--durability` is that of raw, lean, java and replicated. What is replicated compares three
nodes with three. `--parent` compares with the Penstock of another checkout, set up by its `make setup`, in place of
Kafka: what a change costs. `--one-process` measures `penstock dev` instead of separate services. Machines are shared and
noisy: quote the ratio, which is the median of the pairs, never one absolute figure. `cpu_us` is CPU time of each server
process per request (or record), a median too.
"""

import argparse
import json
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tests.bench.background import background
from tests.bench.cases import Case, raw_cases
from tests.bench.comparison import compare, warm
from tests.bench.footprint import memory, startup
from tests.bench.group_cases import group_cases, replicated_group_cases
from tests.bench.java import java_cases
from tests.bench.lean.cases import lean_cases, lean_replicated_cases
from tests.bench.log_figures import compaction, recovery
from tests.bench.machine import machine
from tests.bench.opened_cases import opened_cases
from tests.bench.overheads import overheads
from tests.bench.partitions import many_partitions
from tests.bench.replicated_cases import replicated_cases
from tests.bench.report_page import write_page
from tests.bench.storage_cases import random_read_cases, synced_cases
from tests.bench.systems import start_kafka, start_one_process, start_penstock, start_replicated_kafka, start_replicated_penstock
from tests.bench.transactional_ids import transactional_ids
from tests.bench.transactions import transactions

CASES: dict[str, Callable[[], list[Case]]] = {
    "lean": lean_cases,
    "raw": raw_cases,
    "java": java_cases,
    "synced": synced_cases,
    "random": random_read_cases,
    "opened": opened_cases,
    "lean_replicated": lean_replicated_cases,
    "replicated": replicated_cases,
    "groups": group_cases,
    "replicated_groups": replicated_group_cases,
}
IN_ONE_PROCESS = ("lean", "raw", "java", "synced", "opened")
"""One node whose files nobody replaces meanwhile is all that these need."""
REPLICATED = ("lean_replicated", "replicated", "replicated_groups")
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


class Report:
    """Figures as JSON lines, and as a page that grows with them."""

    def __init__(self, page: Path | None) -> None:
        self._page = page
        self._lines: list[dict[str, object]] = []

    def add(self, line: dict[str, object]) -> None:
        print(json.dumps(line), flush=True)
        self._lines.append(line)
        if self._page is not None:
            write_page(self._page, self._lines)


def _compare_all(cases: list[Case], durability: str, options: argparse.Namespace, report: Report, *, replicated: bool) -> None:
    start_kafka_side, start_ours = STARTS[replicated]
    with ExitStack() as stack:
        if options.parent is not None:
            other = stack.enter_context(start_ours(durability, options.parent, "parent"))
        else:
            other = stack.enter_context(start_kafka_side(durability))
        penstock = stack.enter_context((start_one_process if options.one_process else start_ours)(durability))
        warm([penstock, other], cases, options.warm)
        for case in cases:
            report.add(compare(case, penstock, other, options.rounds, options.seconds))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="tests.bench", description="Penstock beside Apache Kafka, as JSON lines.")
    for group in (*CASES, *FIGURES):
        parser.add_argument(f"--{group.replace('_', '-')}", action="store_true")
    parser.add_argument("--only", default="", help="of the cases, those with one of these, set apart by commas, in their name")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--warm", type=float, default=40.0)
    parser.add_argument("--durability", choices=["replicated", "synced"], default="replicated")
    parser.add_argument("--parent", type=Path, help="a checkout of another commit, in place of Kafka")
    parser.add_argument("--one-process", action="store_true", help="`penstock dev` in place of separate services, one node only")
    parser.add_argument("--report", type=Path, help="a page with plots, in HTML")
    options = parser.parse_args(arguments)
    wanted = [group for group in (*CASES, *FIGURES) if getattr(options, group)] or [*CASES, *FIGURES]
    if options.one_process and not set(wanted) <= set(IN_ONE_PROCESS):
        parser.error(f"--one-process takes groups: {', '.join(IN_ONE_PROCESS)}")
    chosen: dict[tuple[str, bool], list[Case]] = {}
    for group in wanted:
        if group in CASES:
            cases = [case for case in CASES[group]() if any(part in case.name for part in options.only.split(","))]
            chosen.setdefault((DURABILITY.get(group, options.durability), group in REPLICATED), []).extend(cases)
    figures = [FIGURES[group] for group in wanted if group in FIGURES and not options.only]
    if not any(chosen.values()) and not figures:
        parser.error(f"no case has {options.only!r} in its name")
    report = Report(options.report)
    report.add(machine(arguments))
    for (durability, replicated), cases in chosen.items():
        if cases:
            _compare_all(cases, durability, options, report, replicated=replicated)
    for measure in figures:
        for figure in measure():
            report.add(figure)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
