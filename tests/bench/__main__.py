"""`make bench`: Penstock beside a warm Apache Kafka, alternating, one JSON line per case.

    python -m tests.bench [--lean] [--lean-tls] [--lean-replicated] [--raw] [--java] [--librdkafka] [--synced] [--replicated]
                          [--random] [--cold] [--sendfile] [--raw-disk] [--opened] [--groups] [--replicated-groups]
                          [--memory] [--startup] [--node-footprint] [--recovery] [--partitions] [--compaction] [--background]
                          [--transactions] [--transactional-ids] [--overheads] [--retention]
                          [--authorization] [--idle-connections] [--tls-reconnects] [--slow-loris]
                          [--only SUBSTRING,…] [--rounds 7] [--seconds 2] [--warm 40] [--durability replicated|synced]
                          [--parent CHECKOUT | --separate] [--one-process | --nodes] [--gateways 1] [--report FILE.html]

Without a group, all of them; `--durability` is that of raw, lean, lean-tls, java, librdkafka and replicated. What is replicated
compares three nodes with three. Beside sendfile stands Penstock with read and write, and beside raw-disk the file system alone.
`--parent` compares with the Penstock of another checkout, set up by its `make setup`, in place of Kafka: what a change costs.
`--one-process` measures `penstock dev` instead of separate services, and `--nodes` the node role: a node for each core, or
three where three are compared. `--separate` compares these with separate services, in place of Kafka. `--gateways` is for
lean-tls: a gateway is one process, so it takes as many as there are cores to use them. Machines are shared and noisy: quote the
ratio, which is the median of the pairs, never one absolute figure. `cpu_us` is CPU time of each server process per request (or
record), a median too.
"""

import argparse
import json
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path

from tests.bench.background import background
from tests.bench.cases import Case, raw_cases
from tests.bench.cold_pages import cold_cases
from tests.bench.comparison import compare, warm
from tests.bench.footprint import memory, node_footprint, startup
from tests.bench.group_cases import group_cases, replicated_group_cases
from tests.bench.java import java_cases
from tests.bench.lean.cases import lean_cases, lean_replicated_cases, lean_tls_cases
from tests.bench.librdkafka import librdkafka_cases
from tests.bench.log_figures import compaction, recovery
from tests.bench.machine import machine
from tests.bench.opened_cases import opened_cases
from tests.bench.overheads import overheads
from tests.bench.partitions import many_partitions
from tests.bench.raw_disk import raw_disk_cases, start_raw_disk
from tests.bench.replicated_cases import replicated_cases
from tests.bench.report_page import write_page
from tests.bench.retained_write import retained_write
from tests.bench.secured_systems import start_tls_kafka, start_tls_penstock
from tests.bench.security.authorization import authorization
from tests.bench.security.connections import idle_connections, slow_loris, tls_reconnects
from tests.bench.sendfile import sendfile_cases, start_reading, start_sending
from tests.bench.sides import Side
from tests.bench.storage_cases import random_read_cases, synced_cases
from tests.bench.systems import (
    start_kafka,
    start_nodes,
    start_one_process,
    start_penstock,
    start_replicated_kafka,
    start_replicated_nodes,
    start_replicated_penstock,
)
from tests.bench.transactional_ids import transactional_ids
from tests.bench.transactions import transactions
from tests.support.requirements import ROOT

CASES: dict[str, Callable[[], list[Case]]] = {
    "lean": lean_cases,
    "raw": raw_cases,
    "java": java_cases,
    "librdkafka": librdkafka_cases,
    "synced": synced_cases,
    "random": random_read_cases,
    "cold": cold_cases,
    "sendfile": sendfile_cases,
    "raw_disk": raw_disk_cases,
    "opened": opened_cases,
    "lean_tls": lean_tls_cases,
    "lean_replicated": lean_replicated_cases,
    "replicated": replicated_cases,
    "groups": group_cases,
    "replicated_groups": replicated_group_cases,
}
IN_ONE_PROCESS = ("lean", "raw", "java", "librdkafka", "synced", "opened")
"""One node whose files nobody replaces meanwhile is all that these need."""
OF_NODES = ("lean", "lean_replicated", "raw", "java", "librdkafka", "opened", "replicated")
"""What nodes are measured by: it takes no TLS, and no process that is only a gateway or only a storage node."""
SINGLE, REPLICATED, TLS, SENDFILE, RAW_DISK = "single", "replicated", "tls", "sendfile", "raw disk"
SHAPES = {
    "lean_replicated": REPLICATED,
    "replicated": REPLICATED,
    "replicated_groups": REPLICATED,
    "lean_tls": TLS,
    "sendfile": SENDFILE,
    "raw_disk": RAW_DISK,
}
Start = Callable[..., AbstractContextManager[Side]]
STARTS: dict[str, tuple[Start, Start]] = {
    SINGLE: (start_kafka, start_penstock),
    REPLICATED: (start_replicated_kafka, start_replicated_penstock),
    TLS: (start_tls_kafka, start_tls_penstock),
    SENDFILE: (start_reading, start_sending),
    RAW_DISK: (start_raw_disk, start_penstock),
}
"""Kafka, or what else stands beside Penstock; and Penstock. One node each, or three, or one that speaks TLS."""
START_NODES = {SINGLE: start_nodes, REPLICATED: start_replicated_nodes}
DURABILITY = {"synced": "synced", "random": "replicated", "cold": "replicated", "sendfile": "replicated", "raw_disk": "synced"}
FIGURES: dict[str, Callable[[], list[dict[str, object]]]] = {
    "memory": memory,
    "startup": startup,
    "node_footprint": node_footprint,
    "recovery": recovery,
    "partitions": many_partitions,
    "compaction": compaction,
    "background": background,
    "transactions": transactions,
    "transactional_ids": transactional_ids,
    "overheads": overheads,
    "retention": retained_write,
    "authorization": authorization,
    "idle_connections": idle_connections,
    "tls_reconnects": tls_reconnects,
    "slow_loris": slow_loris,
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


def is_named(group: str, only: str) -> bool:
    return any(part in group.replace("_", "-") for part in only.split(","))


def _compare_all(cases: list[Case], durability: str, options: argparse.Namespace, report: Report, *, shape: str) -> None:
    start_other, start_separate = STARTS[shape]
    start_ours = start_one_process if options.one_process else START_NODES[shape] if options.nodes else start_separate
    if shape == TLS:
        start_ours = partial(start_tls_penstock, gateways=options.gateways)
    with ExitStack() as stack:
        if options.parent is not None:
            other = stack.enter_context(start_separate(durability, options.parent, "parent"))
        elif options.separate:
            other = stack.enter_context(start_separate(durability, ROOT, "separate"))
        else:
            other = stack.enter_context(start_other(durability))
        penstock = stack.enter_context(start_ours(durability))
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
    others, ours = parser.add_mutually_exclusive_group(), parser.add_mutually_exclusive_group()
    others.add_argument("--parent", type=Path, help="a checkout of another commit, in place of Kafka")
    others.add_argument("--separate", action="store_true", help="separate services in place of Kafka")
    ours.add_argument("--one-process", action="store_true", help="`penstock dev` in place of separate services, one node only")
    ours.add_argument("--nodes", action="store_true", help="the node role in place of separate services, a node for each core")
    parser.add_argument("--gateways", type=int, default=1, help="how many of them the clients of lean-tls take by turns")
    parser.add_argument("--report", type=Path, help="a page with plots, in HTML")
    options = parser.parse_args(arguments)
    wanted = [group for group in (*CASES, *FIGURES) if getattr(options, group)] or [*CASES, *FIGURES]
    if options.one_process and not set(wanted) <= set(IN_ONE_PROCESS):
        parser.error(f"--one-process takes groups: {', '.join(IN_ONE_PROCESS)}")
    if options.nodes and not set(wanted) <= set(OF_NODES):
        parser.error(f"--nodes takes groups: {', '.join(OF_NODES)}")
    chosen: dict[tuple[str, str], list[Case]] = {}
    for group in wanted:
        if group in CASES:
            cases = [case for case in CASES[group]() if any(part in case.name for part in options.only.split(","))]
            chosen.setdefault((DURABILITY.get(group, options.durability), SHAPES.get(group, SINGLE)), []).extend(cases)
    figures = [FIGURES[group] for group in wanted if group in FIGURES and is_named(group, options.only)]
    if not any(chosen.values()) and not figures:
        parser.error(f"no case has {options.only!r} in its name")
    report = Report(options.report)
    report.add(machine(arguments))
    for (durability, shape), cases in chosen.items():
        if cases:
            _compare_all(cases, durability, options, report, shape=shape)
    for measure in figures:
        for figure in measure():
            report.add(figure)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
