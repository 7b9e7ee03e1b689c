"""`make simulate SEED=7` replays one seed; `make simulate SEEDS=1000` runs many, from FIRST on.

KIND=disk: one disk whose power is cut everywhere. KIND=component: the replication of one partition. KIND=groups: one consumer
group and its coordinator. KIND=transactions: two transactional ids, their coordinators and partitions. KIND=compaction: compacted
topics that are made anew on a small cluster. KIND=quotas: client quotas at gateways, and their managers. KIND=cluster: a whole
cluster. Without it all of these, one after the other.
KIND=planted: do KIND=component, KIND=groups and KIND=transactions catch the bugs that they should? KIND=failed: the seeds that
ever found something. KIND=properties: the property tests with other examples, for each seed.
"""

import argparse
import sys
import time

from tests.simulation.cluster import seed_reports
from tests.simulation.compaction import seeds as compaction
from tests.simulation.failed_seeds import print_failed
from tests.simulation.groups import seeds as groups
from tests.simulation.hunt import properties
from tests.simulation.hunt.replays import replay_failed
from tests.simulation.planted import print_seeds_to_catch
from tests.simulation.quotas import seeds as quotas
from tests.simulation.replication import seeds as component
from tests.simulation.run import STEPS
from tests.simulation.seeds import run_many, run_one, story_of
from tests.simulation.sometimes import POINTS, Sometimes
from tests.simulation.transactions import seeds as transactions

STORY_LINES = 60


def main() -> int:
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--seed", type=int, help="replay this one")
    parser.add_argument("--seeds", type=int, default=50, help="run so many")
    parser.add_argument("--seconds", type=float, help="begin no further ones after so long (not with KIND=disk)")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--steps", type=int, default=STEPS, help="acts of the workload in each")
    parser.add_argument("--cluster", action="store_true", help="a whole cluster only")
    parser.add_argument("--component", action="store_true", help="the replication of one partition only")
    parser.add_argument("--groups", action="store_true", help="one consumer group and its coordinator only")
    parser.add_argument("--transactions", action="store_true", help="transactions, their coordinators and partitions only")
    parser.add_argument("--compaction", action="store_true", help="compacted topics that are made anew only")
    parser.add_argument("--quotas", action="store_true", help="client quotas only")
    parser.add_argument("--planted", action="store_true", help="only bugs planted into replication, groups and transactions")
    parser.add_argument("--disk", action="store_true", help="one disk only")
    parser.add_argument("--failed", action="store_true", help="only the seeds that ever found something")
    parser.add_argument("--properties", action="store_true", help="only property tests")
    parser.add_argument("--story", action="store_true", help="with --seed: tell everything that happened")
    chosen = parser.parse_args()
    if chosen.planted:
        return print_seeds_to_catch("component") | print_seeds_to_catch("groups") | print_seeds_to_catch("transactions")
    if chosen.failed:
        return replay_failed()
    if chosen.properties:
        return try_properties(chosen)
    failed = 0
    kinds = chosen.disk, chosen.component, chosen.groups, chosen.transactions, chosen.compaction, chosen.quotas, chosen.cluster
    all_kinds = not any(kinds)
    if chosen.disk or all_kinds:
        failed |= simulate_disks(chosen)
    if chosen.component or all_kinds:
        failed |= simulate_components(chosen)
    if chosen.groups or all_kinds:
        failed |= simulate_groups(chosen)
    if chosen.transactions or all_kinds:
        failed |= simulate_transactions(chosen)
    if chosen.compaction or all_kinds:
        failed |= simulate_compaction(chosen)
    if chosen.quotas or all_kinds:
        failed |= simulate_quotas(chosen)
    if chosen.cluster or all_kinds:
        failed |= simulate_clusters(chosen)
    return failed


def simulate_components(chosen: argparse.Namespace) -> int:
    if chosen.seed is not None:
        return component.RUNS.replay(chosen.seed, everything=chosen.story)
    return component.run_seeds(chosen.first, chosen.seeds, chosen.seconds)


def simulate_groups(chosen: argparse.Namespace) -> int:
    if chosen.seed is not None:
        return groups.RUNS.replay(chosen.seed, everything=chosen.story)
    return groups.run_seeds(chosen.first, chosen.seeds, chosen.seconds)


def simulate_transactions(chosen: argparse.Namespace) -> int:
    if chosen.seed is not None:
        return transactions.RUNS.replay(chosen.seed, everything=chosen.story)
    return transactions.run_seeds(chosen.first, chosen.seeds, chosen.seconds)


def simulate_compaction(chosen: argparse.Namespace) -> int:
    if chosen.seed is not None:
        return compaction.RUNS.replay(chosen.seed, everything=chosen.story)
    return compaction.run_seeds(chosen.first, chosen.seeds, chosen.seconds)


def simulate_quotas(chosen: argparse.Namespace) -> int:
    if chosen.seed is not None:
        return quotas.RUNS.replay(chosen.seed, everything=chosen.story)
    return quotas.run_seeds(chosen.first, chosen.seeds, chosen.seconds)


def simulate_clusters(chosen: argparse.Namespace) -> int:
    if chosen.seed is not None:
        return seed_reports.replay(chosen.seed, everything=chosen.story)
    return seed_reports.run_seeds(chosen.first, chosen.seeds, chosen.seconds)


def try_properties(chosen: argparse.Namespace) -> int:
    seeds = range(chosen.first, chosen.first + chosen.seeds) if chosen.seed is None else [chosen.seed]
    failed = {seed: violation for seed in seeds if (violation := properties.violation_of(seed))}
    print_failed("properties", failed)
    return 1 if failed else 0


def simulate_disks(chosen: argparse.Namespace) -> int:
    if chosen.seed is not None:
        return replay(chosen.seed, chosen.steps, everything=chosen.story)
    started, points, failed, sometimes = time.monotonic(), 0, 0, Sometimes()
    for outcome in run_many(range(chosen.first, chosen.first + chosen.seeds), chosen.steps):
        points += outcome.report.crash_points
        sometimes.counts += outcome.report.sometimes.counts
        if outcome.failure:
            failed += 1
            print_failure(outcome.failure, outcome.story, chosen.steps, outcome.seed)
    seconds = time.monotonic() - started
    print(
        f"{chosen.seeds} seeds, {points} crash points in {seconds:.0f} s ({points / seconds:.0f} a second), {failed} seeds failed"
    )
    for name in POINTS:
        print(f"  {sometimes.counts[name]:8}  {name}")
    return 1 if failed else 0


def replay(seed: int, steps: int, *, everything: bool) -> int:
    if everything:
        print("\n".join(story_of(seed, steps)))
    outcome = run_one(seed, steps)
    if outcome.failure:
        print_failure(outcome.failure, outcome.story, steps, seed)
        return 1
    print(f"seed {seed}: {outcome.report.crash_points} crash points, all sound; digest {outcome.report.digest[:16]}")
    return 0


def print_failure(failure: str, story: tuple[str, ...], steps: int, seed: int) -> None:
    print(f"\n{failure}\n  replay: make simulate SEED={seed}" + (f" STEPS={steps}" if steps != STEPS else ""))
    print("\n".join(f"  | {line}" for line in story[-STORY_LINES:]))


if __name__ == "__main__":
    sys.exit(main())
