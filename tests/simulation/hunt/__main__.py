"""`make hunt MINUTES=30` looks for seeds that fail: every kind of simulation in turn, at low priority, beside other work.

It goes on where the last hunt of this checkout ended, also after Ctrl-C. A seed that fails is written into
`tests/simulation/failed_seeds.json` at once: commit it, and CI replays it for ever (`make simulate KIND=failed`). A hunt of ten
minutes or more writes its figures into docs/simulation.md.
"""

import argparse
import multiprocessing
import os
import signal
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import FrameType

from tests.simulation.failed_seeds import REMEMBERED, print_failed, remember
from tests.simulation.hunt.page import MINUTES_MIN, table, write_figures
from tests.simulation.hunt.progress import Progress
from tests.simulation.hunt.seed_runs import KINDS, prepare_worker, run_job
from tests.simulation.hunt.turns import Figures, hunt
from tests.support.requirements import ROOT

PROGRESS = ROOT / ".hunt" / "progress.json"


def main() -> int:
    parser = argparse.ArgumentParser(prog="make hunt", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="begin no further seeds after so long")
    parser.add_argument("--kinds", default=",".join(KINDS), help="of these only")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--nice", type=int, default=19, help="how far it stands back behind other work")
    parser.add_argument("--progress", type=Path, default=PROGRESS, help="the file that tells where the last hunt ended")
    parser.add_argument("--failed", type=Path, default=REMEMBERED, help="the file that keeps what fails")
    chosen = parser.parse_args()
    together = {kind: KINDS[kind].together for kind in chosen.kinds.split(",")}
    os.nice(chosen.nice)
    figures = Figures()
    signal.signal(signal.SIGTERM, _interrupted)
    with ProcessPoolExecutor(chosen.workers, multiprocessing.get_context("spawn"), prepare_worker) as pool:
        try:
            for outcome in hunt(
                pool, run_job, together, Progress.load(chosen.progress), seconds=60 * chosen.minutes, workers=chosen.workers
            ):
                figures.add(outcome)
                if outcome.failed:
                    remember(outcome.kind, outcome.failed, chosen.failed)
                    print_failed(outcome.kind, outcome.failed)
                print(f"{outcome.kind}: {figures.seeds[outcome.kind]} seeds, {figures.cpu_s[outcome.kind]:.0f} s", flush=True)
        except KeyboardInterrupt:
            for process in multiprocessing.active_children():
                process.terminate()
            print(table(figures) + "The next hunt goes on from here.")
            return 1
    print(table(figures), end="")
    if chosen.minutes >= MINUTES_MIN and together.keys() == KINDS.keys():
        write_figures(figures, chosen.minutes)
    failed = {kind: seeds for kind, seeds in figures.failed.items() if seeds}
    for kind, seeds in failed.items():
        print_failed(kind, seeds)
    return 1 if failed else 0


def _interrupted(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
