"""One case on two systems that take turns, and what the pairs say: medians, quartiles, and the cost of each side."""

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.bench.cases import Case, Measured
from tests.bench.cpu import cpu_of
from tests.bench.process_counters import disk_reads_of, switches_of
from tests.bench.sides import Side
from tests.support.process_memory import memory_bytes

BUSY = (0, 1, 2, 5, 6)
"""Columns of the first line of `/proc/stat` that are work of this machine: user, nice, system, irq, softirq. The next is time
that the hypervisor gave to others."""
STEAL = 7
LATENCIES = ("p50", "p90", "p99", "p999", "max")


def _machine_s() -> tuple[float, float]:
    """CPU seconds of all that runs here, and those that a hypervisor took away."""
    fields = [int(value) for value in Path("/proc/stat").read_text(encoding="utf-8").splitlines()[0].split()[1:]]
    ticks = os.sysconf("SC_CLK_TCK")
    return sum(fields[column] for column in BUSY) / ticks, fields[STEAL] / ticks


def _client_s() -> float:
    """CPU seconds of this process, and of the load generators that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Turns:
    """The turns of one side in one case."""

    def __init__(self, case: Case, side: Side) -> None:
        self.case = case
        self.side = side
        self.prepared = case.prepare(side)
        self.measured: list[Measured] = []
        self.memory_mb: dict[str, float] = {}
        self._cpu_us: list[dict[str, float]] = []
        self._cpu_s_per_gb: list[float] = []
        self._switches_per_gb: list[float] = []
        self._disk_shares: list[float] = []
        self._client_cores: list[float] = []
        self._other_cores: list[float] = []
        self._stolen_cores: list[float] = []

    def run(self, seconds: float, *, counted: bool) -> None:
        if self.case.renew is not None:
            self.prepared = self.case.renew(self.side, self.prepared)
        all_pids = {**self.side.pids, **self.side.other_pids}
        switches, disk_reads = switches_of(all_pids), disk_reads_of(all_pids)
        before, started = cpu_of(all_pids), time.perf_counter()
        (machine, stolen), client = _machine_s(), _client_s()
        measured = self.case.run(self.side, self.prepared, seconds)
        (machine_after, stolen_after), client_s = _machine_s(), _client_s() - client
        after, elapsed = cpu_of(all_pids), time.perf_counter() - started
        switches, disk_reads = switches_of(all_pids) - switches, disk_reads_of(all_pids) - disk_reads
        if not counted:
            return
        used = {name: after[name] - before[name] for name in all_pids}
        self.measured.append(measured)
        self._cpu_us.append({name: used[name] * 1e6 / measured.requests for name in self.side.pids})
        if measured.bytes:
            self._cpu_s_per_gb.append(sum(used.values()) / measured.bytes * 1e9)
            self._switches_per_gb.append(switches / measured.bytes * 1e9)
            self._disk_shares.append(disk_reads / measured.bytes)
        self._client_cores.append(client_s / elapsed)
        self._other_cores.append(max(0.0, machine_after - machine - client_s - sum(used.values())) / elapsed)
        self._stolen_cores.append((stolen_after - stolen) / elapsed)
        for name, pid in all_pids.items():
            if (size := memory_bytes(pid)) is not None:
                self.memory_mb[name] = max(self.memory_mb.get(name, 0.0), round(size / 1e6, 1))

    @property
    def values(self) -> list[float]:
        return [measured.value for measured in self.measured]

    @property
    def cpu_us(self) -> dict[str, float]:
        return {name: round(statistics.median(turn[name] for turn in self._cpu_us), 2) for name in self.side.pids}

    def costs(self) -> dict[str, object]:
        """What this side took meanwhile, and the rest of the machine. `disk_read_share`: bytes that the disk read for its
        processes, by those of record batches."""

        def median(values: Sequence[float]) -> float | None:
            return round(statistics.median(values), 3) if values else None

        return {
            "cpu_s_per_gb": median(self._cpu_s_per_gb),
            "switches_per_gb": median(self._switches_per_gb),
            "disk_read_share": median(self._disk_shares),
            "memory_mb": self.memory_mb,
            "client_cores": round(statistics.median(self._client_cores), 3),
            "other_cores": round(statistics.median(self._other_cores), 3),
            "stolen_cores": round(statistics.median(self._stolen_cores), 3),
        }

    def clean(self) -> None:
        self.case.clean(self.side, self.prepared)


def quartiles(values: Sequence[float]) -> list[float]:
    """The lower and the upper one."""
    if len(values) < 2:
        return [round(value, 3) for value in (*values, *values)]
    lower, _, upper = statistics.quantiles(values, n=4, method="inclusive")
    return [round(lower, 3), round(upper, 3)]


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
    return figure(ours, theirs, rounds, seconds)


def figure(ours: Turns, theirs: Turns, rounds: int, seconds: float) -> dict[str, object]:
    case, penstock, other = ours.case, ours.side, theirs.side
    sides = {penstock.name: ours, other.name: theirs}
    ratios = sorted(our_value / their_value for our_value, their_value in zip(ours.values, theirs.values, strict=True))
    return {
        "name": case.name,
        penstock.name: round(statistics.median(ours.values), 3),
        other.name: round(statistics.median(theirs.values), 3),
        "ratio": round(statistics.median(ratios), 3),
        "ratio_min": round(ratios[0], 3),
        "ratio_max": round(ratios[-1], 3),
        "ratio_quartiles": quartiles(ratios),
        "quartiles": {name: quartiles(turns.values) for name, turns in sides.items()},
        "values": {name: [round(value, 3) for value in turns.values] for name, turns in sides.items()},
        "unit": case.unit,
        "higher_is_better": case.higher_is_better,
        "mark": case.mark if other.name == "kafka" else "",
        "durability": {penstock.name: penstock.durability, other.name: other.durability},
        "settings": case.settings,
        "rounds": rounds,
        "seconds": seconds,
        "cpu_us": {penstock.name: ours.cpu_us, other.name: theirs.cpu_us},
        "per": case.per,
        "costs": {name: turns.costs() for name, turns in sides.items()},
        **_of_load({name: turns.measured for name, turns in sides.items()}),
    }


def _of_load(measured: Mapping[str, Sequence[Measured]]) -> dict[str, object]:
    """What only the load generator in C tells: latencies (ms), and of an open loop what was offered and what was done."""
    runs = {name: [each.loaded for each in turns if each.loaded is not None] for name, turns in measured.items()}
    if not all(runs.values()):
        return {}

    def medians(value: Callable[..., float]) -> dict[str, float]:
        return {name: round(statistics.median(value(run) for run in turns), 3) for name, turns in runs.items()}

    by_quantile = {quantile: medians(lambda run, quantile=quantile: run.latency_us[quantile] / 1e3) for quantile in LATENCIES}
    found: dict[str, object] = {"latency_ms": {name: {q: by_quantile[q][name] for q in LATENCIES} for name in runs}}
    ciphers = {name: turns[0].tls for name, turns in runs.items()}
    if any(ciphers.values()):
        found["tls"] = ciphers
    offered = max(run.offered_rate for turns in runs.values() for run in turns)
    if offered:
        found["offered_rate"] = offered
        found["client_late_p99_ms"] = medians(lambda run: run.woken_late_us["p99"] / 1e3)
        found["done_rate"] = medians(lambda run: run.requests / run.seconds)
        found["unanswered"] = {name: sum(run.unanswered for run in turns) for name, turns in runs.items()}
    found["throttled_ms"] = {name: sum(run.throttle_ms for run in turns) for name, turns in runs.items()}
    return found


def warm(sides: list[Side], cases: list[Case], seconds: float) -> None:
    """At least `seconds` of every kind of load on each side: a cold JIT is two to three times slower."""
    for side in sides:
        warmed = [Turns(case, side) for case in cases]
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for turns in warmed:
                turns.run(1.0, counted=False)
        for turns in warmed:
            turns.clean()
