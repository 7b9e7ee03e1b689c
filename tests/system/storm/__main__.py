"""python -m tests.system.storm: 200 members over 500 partitions, one kind of group after the other; prints one JSON line each.

--members --partitions --events choose another size, --kind only some, --seed the order of what happens.
"""

import argparse
import asyncio
import json
import random
import sys

from tests.support.cluster_harness import LocalCluster
from tests.system.storm.run import KINDS, Size, storm


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.system.storm", description=__doc__)
    parser.add_argument("--members", type=int, default=200)
    parser.add_argument("--partitions", type=int, default=500)
    parser.add_argument("--events", type=int, default=100)
    parser.add_argument("--kind", action="append", choices=list(KINDS))
    parser.add_argument("--seed", type=int)
    chosen = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 32) if chosen.seed is None else chosen.seed
    size = Size(chosen.members, chosen.partitions, chosen.events, session_ms=6_000, heartbeat_s=1.0)
    print(f"SEED={seed}", flush=True)
    with LocalCluster(storage=1, gateways=2, coordinators=2) as cluster:
        for kind in chosen.kind or KINDS:
            [outcome] = asyncio.run(storm(cluster, f"storm-{kind}", [kind], size, seed))
            print(json.dumps({**outcome.__dict__, "events": dict(outcome.events)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
