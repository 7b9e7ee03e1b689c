"""How long six clients wait when something fails, stops or comes back: `python -m tests.bench.client_gaps`.

    [--clients librdkafka,java,kafka-python,aiokafka,franz-go,kafkajs] [--only nothing,leader-killed,leader-stopped,
    gateway-killed,leader-silent,rolling-restart] [--repetitions 30] [--refresh-ms 0,1000] [--per-second 100]
    [--durability synced|replicated] [--keep DIRECTORY] [--hosts]

With --hosts, as root on Linux, each process of the cluster has a network of its own, and --only may name one-way cuts:
leader-not-heard, leader-hears-nothing, gateway-deaf-to-leader.

--only may also name rolling-upgrade. Each time, all services become those of the other version, one after the other: first those
of the commit that `tests/upgrade/previous` names, then those of this checkout.

Each client has a producer (idempotent, acks=all) with a topic of its own, and a consumer of one topic that another producer
feeds. Each topic has one partition with three replicas, and node 1 leads them all. Refresh 0 is the client's default.

One JSON line per refresh interval, client, side and fault: the longest time between two acknowledgements, or two received
records, around each fault; median and maximum; how often it was above 300 ms; failed deliveries. "own_ms" is by how much it was
longer than that of the quickest client on the same side: the rest is the cluster's share, and the machine's. The client "machine"
is a small process that only wakes up, and one that only replaces a file: "undisturbed" has the repetitions in which neither
waited for more than 100 ms.

On two cores, set `kernel.sched_autogroup_enabled` to 0 before: a producer of librdkafka polls without a pause while nothing is
acknowledged, and the processes of a cluster, each a session of its own, then wait for a core for seconds.

"leaders-returned" follows each fault that takes the leader away: the node is in sync again and is elected. At the end a line per
client compares with the log: acknowledged records that are not there, records that are there twice, records that its consumer
passed over or got twice.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from tests.bench.client_gaps.faults import FAULTS
from tests.bench.client_gaps.run import Load, measure
from tests.bench.client_gaps.streams import COMMANDS
from tests.system.chaos.hosts import is_router, run_as_router

AUTOGROUP = Path("/proc/sys/kernel/sched_autogroup_enabled")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.client_gaps")
    parser.add_argument("--clients", default=",".join(COMMANDS))
    parser.add_argument("--only", default=",".join(FAULTS))
    parser.add_argument("--repetitions", type=int, default=30)
    parser.add_argument("--refresh-ms", default="0,1000")
    parser.add_argument("--per-second", type=int, default=100)
    parser.add_argument("--durability", choices=("synced", "replicated"), default="synced")
    parser.add_argument("--keep", type=Path, help="where the clusters' files stay, with their logs, one folder per interval")
    parser.add_argument("--hosts", action="store_true", help="a network for each process")
    given = parser.parse_args()
    if given.hosts and not is_router():
        return run_as_router("tests.bench.client_gaps", sys.argv[1:])
    if AUTOGROUP.exists() and AUTOGROUP.read_text(encoding="utf-8").strip() != "0":
        print(f"{AUTOGROUP} is not 0: busy clients may keep the cluster from its cores for seconds", file=sys.stderr)
    clients, chosen = given.clients.split(","), given.only.split(",")
    with tempfile.TemporaryDirectory(prefix="penstock-gaps-") as scratch:
        for refresh_ms in map(int, given.refresh_ms.split(",")):
            load = Load(refresh_ms, given.per_second, given.durability)
            directory = (given.keep or Path(scratch)) / f"refresh-{refresh_ms}"
            for figure in measure(clients, chosen, given.repetitions, load, directory, on_hosts=given.hosts):
                print(json.dumps(figure), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
