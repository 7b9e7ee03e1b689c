"""`make bench`: Penstock beside a warm Apache Kafka, alternating, one JSON line per case.

    python -m tests.bench [--only SUBSTRING] [--rounds 7] [--seconds 2] [--warm 40] [--durability replicated|synced]

Machines are shared and noisy: quote the ratio, which is the median of the pairs, never one absolute figure.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack

from tests.bench.cases import Case, all_cases
from tests.bench.sides import Side
from tests.bench.systems import start_kafka, start_penstock


def compare(case: Case, penstock: Side, kafka: Side, rounds: int, seconds: float) -> dict[str, object]:
    """Runs the case in turn on both sides, the first turn uncounted; the order within a pair alternates too."""
    ours, theirs = case.prepare(penstock), case.prepare(kafka)
    pairs: list[tuple[float, float]] = []
    try:
        for turn in range(rounds + 1):
            sides: list[Callable[[], float]] = [
                lambda: case.run(penstock, ours, seconds),
                lambda: case.run(kafka, theirs, seconds),
            ]
            if turn % 2:
                second, first = sides[1](), sides[0]()
            else:
                first, second = sides[0](), sides[1]()
            if turn:
                pairs.append((first, second))
    finally:
        case.clean(penstock, ours)
        case.clean(kafka, theirs)
    ratios = sorted(mine / other for mine, other in pairs)
    return {
        "name": case.name,
        "penstock": round(statistics.median(mine for mine, _ in pairs), 3),
        "kafka": round(statistics.median(other for _, other in pairs), 3),
        "ratio": round(statistics.median(ratios), 3),
        "ratio_min": round(ratios[0], 3),
        "ratio_max": round(ratios[-1], 3),
        "unit": case.unit,
        "durability": {"penstock": penstock.durability, "kafka": kafka.durability},
        "settings": case.settings,
        "rounds": rounds,
        "seconds": seconds,
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


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="tests.bench")
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--warm", type=float, default=40.0)
    parser.add_argument("--durability", choices=["replicated", "synced"], default="replicated")
    options = parser.parse_args(arguments)
    cases = [case for case in all_cases() if options.only in case.name]
    if not cases:
        parser.error(f"no case has {options.only!r} in its name")
    with ExitStack() as stack:
        kafka = stack.enter_context(start_kafka(options.durability))
        penstock = stack.enter_context(start_penstock(options.durability))
        warm([penstock, kafka], cases, options.warm)
        for case in cases:
            print(json.dumps(compare(case, penstock, kafka, options.rounds, options.seconds)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
