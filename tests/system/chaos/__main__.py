"""`make chaos`: cuts the power of a real file system, then kills and hangs the processes of a cluster, under real clients.

CUTS=50 FAULTS=40 TRANSFERS=100 (faults while transactions run) SEED=7 choose how often and when; 0 leaves one of them out.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
import traceback
from functools import partial
from pathlib import Path

from tests.support.requirements import is_available
from tests.system.chaos.cluster_run import ClusterRun, Place
from tests.system.chaos.clusters import many_disks, many_hosts, one_host
from tests.system.chaos.hosts import is_router, run_as_router, why_no_hosts
from tests.system.chaos.power import why_no_power_cuts
from tests.system.chaos.run import Run
from tests.system.chaos.transactions.run import run as run_transactions
from tests.system.chaos.transactions.verdict import WRONG, shortfall

MANY_HOSTS = "many-hosts"
PLACES: dict[str, Place] = {
    "one-host": one_host,
    "many-disks": many_disks,
    "one-power-supply": partial(many_disks, together=True),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--cuts", type=int, default=50, help="power cuts, at least")
    parser.add_argument("--faults", type=int, default=40, help="faults of processes")
    parser.add_argument("--factor", type=int, default=3, help="replication factor of the topics under faults")
    parser.add_argument("--place", choices=(*PLACES, MANY_HOSTS), help="where processes fail; all of them by default")
    parser.add_argument("--seed", type=int, help="when they come; what the machine does in between no seed repeats")
    parser.add_argument("--transfers", type=int, default=100, help="faults of processes while transactions run")
    chosen = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 32) if chosen.seed is None else chosen.seed
    codes = []
    if chosen.cuts:
        codes.append(cut_power(chosen.cuts, seed))
    for name in [*PLACES, MANY_HOSTS] if chosen.place is None else [chosen.place]:
        if not chosen.faults:
            continue
        if not is_router():
            say(f"{name}:")
        if name == MANY_HOSTS:
            codes.append(break_network(chosen.faults, seed, chosen.factor))
        else:
            codes.append(break_processes(PLACES[name], chosen.faults, seed, chosen.factor))
    if chosen.transfers and not is_router():
        say("transfers:")
        codes.append(break_transactions(chosen.transfers, seed))
    return max(codes, default=0)


def break_transactions(faults: int, seed: int) -> int:
    if (lacks := lacking("etcd", "java", "kafka")) is not None:
        print(f"make chaos cannot run transactions here, and has proven nothing: {lacks}", file=sys.stderr)
        return 1
    found = run_transactions(faults, seed)
    print(json.dumps({"seed": seed, **found}))
    if wrong := [name for name in WRONG if found[name]]:
        print(f"BROKEN with SEED={seed}: {', '.join(wrong)}", file=sys.stderr)
        return 1
    if (short := shortfall(found)) is not None:
        print(f"this run proves too little: {short}", file=sys.stderr)
        return 1
    return 0


def cut_power(cuts: int, seed: int) -> int:
    lacks = why_no_power_cuts() or lacking("etcd", "java", "kafka")
    if lacks is not None:
        print(f"make chaos cannot cut any power here, and has proven nothing: {lacks}", file=sys.stderr)
        return 1
    directory = Path(tempfile.mkdtemp(prefix="penstock-chaos-"))
    run = Run(directory, cuts=cuts, seed=seed, say=say)
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


def break_network(faults: int, seed: int, factor: int) -> int:
    if (lacks := why_no_hosts()) is not None:
        print(f"make chaos cannot break any network here, and has proven nothing: {lacks}", file=sys.stderr)
        return 1
    if is_router():
        return break_processes(many_hosts, faults, seed, factor)
    options = {"--cuts": 0, "--faults": faults, "--factor": factor, "--place": MANY_HOSTS, "--seed": seed}
    return run_as_router("tests.system.chaos", [str(word) for option in options.items() for word in option])


def break_processes(place: Place, faults: int, seed: int, factor: int) -> int:
    if (lacks := lacking("etcd", "root")) is not None:
        print(f"make chaos cannot break processes here, and has proven nothing: {lacks}", file=sys.stderr)
        return 1
    directory = Path(tempfile.mkdtemp(prefix="penstock-chaos-"))
    run = ClusterRun(place, directory, faults=faults, seed=seed, factor=factor, say=say)
    try:
        outcome = run.play()
    except Exception:
        traceback.print_exc()
        print(run.outcome.as_json())
        print(f"BROKEN with SEED={seed}; the history and the logs of the services are in {directory}", file=sys.stderr)
        return 1
    shutil.rmtree(directory)
    print(outcome.as_json())
    return 0


def lacking(*names: str) -> str | None:
    return next((f"{name} is not here" for name in names if not is_available(name)), None)


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
