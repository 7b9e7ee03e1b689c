"""`python -m tests.pipeline.chaos`: jobs of all kinds are killed at their steps, on a cluster of real processes."""

import argparse

from tests.pipeline.chaos.kinds import KINDS
from tests.pipeline.chaos.runs import carry_out, planned_runs
from tests.support.cluster_harness import LocalCluster


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", default=",".join(KINDS), help="with commas between them")
    parser.add_argument("--bootstrap", help="a cluster that is there; without it, one is started")
    given = parser.parse_args()
    if given.bootstrap:
        run_all(given.bootstrap, given.kinds.split(","), given.runs, given.seed)
    else:
        with LocalCluster(storage=3) as cluster:
            run_all(cluster.bootstrap, given.kinds.split(","), given.runs, given.seed)


def run_all(bootstrap: str, kinds: list[str], runs: int, seed: int) -> None:
    for number, run in enumerate(planned_runs(kinds, runs, seed), 1):
        print(f"{number}/{runs} {carry_out(run, bootstrap, number)}", flush=True)


if __name__ == "__main__":
    main()
