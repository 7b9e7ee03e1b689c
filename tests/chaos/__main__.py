"""`make chaos`: cuts the power of a real file system under real clients. CUTS=50 SEED=7 choose how often and when."""

import argparse
import random
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

from tests.chaos.power import why_no_power_cuts
from tests.chaos.run import Run
from tests.requirements import is_available


def main() -> int:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--cuts", type=int, default=50, help="power cuts, at least")
    parser.add_argument("--seed", type=int, help="when they come; what the machine does in between no seed repeats")
    chosen = parser.parse_args()
    lacks = why_no_power_cuts() or next(
        (f"{name} is not here" for name in ("etcd", "java", "kafka") if not is_available(name)), None
    )
    if lacks is not None:
        print(f"make chaos cannot cut any power here, and has proven nothing: {lacks}", file=sys.stderr)
        return 1
    seed = random.SystemRandom().randrange(1 << 32) if chosen.seed is None else chosen.seed
    directory = Path(tempfile.mkdtemp(prefix="penstock-chaos-"))
    run = Run(directory, cuts=chosen.cuts, seed=seed, say=lambda line: print(line, flush=True))
    try:
        summary = run.play()
    except Exception:
        traceback.print_exc()
        print(run.summary.as_json())
        print(f"BROKEN with SEED={seed}; disk.img and the logs of the services are in {directory}", file=sys.stderr)
        return 1
    shutil.rmtree(directory)
    print(summary.as_json())
    if (shortfall := summary.shortfall()) is not None:
        print(f"this run proves too little: {shortfall}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
