"""The longest time without an acknowledgement when something fails: `python -m tests.bench.failover`.

    [--only leader-killed,…] [--repetitions 30] [--factor 3] [--durability synced|replicated] [--refresh-ms 1000] [--anew]
    [--explain DIRECTORY] [--kafka]

One idempotent librdkafka producer with acks=all sends 500 records a second to one partition. One JSON line per class of failure:
the longest time between two acknowledgements around each failure, its median and maximum, and how many records failed, which
should be none. `--refresh-ms` makes the producer ask for Metadata so often, and keeps what failed away until it has asked a few
times. `--anew` takes a new producer for each failure, which is connected to the leader only. `--explain` keeps what all processes
show during a pause of five seconds or more, and their logs. `--kafka` kills the leader of three
Apache Kafka brokers with its defaults, in the same way.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.bench.acknowledged import REFRESH_MS, SteadyProducer
from tests.bench.pause_watch import PauseWatch
from tests.compat.clients.admin import Admin
from tests.compat.kafka.trio import KafkaTrio
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually
from tests.support.requirements import is_available
from tests.system.chaos.acknowledgement_gaps import longest_gap_ms, summary
from tests.system.chaos.process_faults import elected

TOPIC = "steady"
STEADY_RECORDS = 500
AGAIN_RECORDS = 50
HOLD_S = 20.0
WITHIN_S = 90.0
REST_S = 12.0
"""librdkafka waits longer from attempt to attempt before it connects to a broker again, and forgets that after 10 s of none."""
AWAY_REFRESHES = 4
RESTED = ("gateway-killed", "rolling-restart")

Strike = Callable[[LocalCluster, SteadyProducer], Callable[[], None]]


def kill(cluster: LocalCluster, *names: str) -> Callable[[], None]:
    for name in names:
        cluster.kill(name)
    return lambda: None


def leader(producer: SteadyProducer) -> str:
    return f"storage-{producer.leader()}"


def gateway_in_use(cluster: LocalCluster, producer: SteadyProducer) -> str:
    """The one that this very producer is connected to."""
    eventually(lambda: producer.port_in_use() is not None)
    port = producer.port_in_use() or 0
    gateways = [name for name in cluster.names if name.startswith("gateway")]
    number = next(number for number in range(len(gateways), 0, -1) if port >= cluster.shape.bootstrap_port(number))
    return f"gateway-{number}"


def kill_leader(cluster: LocalCluster, producer: SteadyProducer) -> Callable[[], None]:
    return kill(cluster, leader(producer))


def kill_gateway(cluster: LocalCluster, producer: SteadyProducer) -> Callable[[], None]:
    return kill(cluster, gateway_in_use(cluster, producer))


def kill_controller(cluster: LocalCluster, producer: SteadyProducer) -> Callable[[], None]:
    return kill(cluster, elected(cluster))


def kill_leader_and_controller(cluster: LocalCluster, producer: SteadyProducer) -> Callable[[], None]:
    return kill(cluster, leader(producer), elected(cluster))


def kill_follower(cluster: LocalCluster, producer: SteadyProducer) -> Callable[[], None]:
    others = [name for name in cluster.names if name.startswith("storage") and name != leader(producer)]
    return kill(cluster, others[0])


def silence_leader(cluster: LocalCluster, producer: SteadyProducer) -> Callable[[], None]:
    """Its connections stay open, and nothing comes from them."""
    pid = cluster.pid(leader(producer))
    os.kill(pid, signal.SIGSTOP)
    return lambda: os.kill(pid, signal.SIGCONT)


def roll(cluster: LocalCluster, producer: SteadyProducer) -> Callable[[], None]:
    """Every service, one after the other, each when the partition is whole again."""
    for role in ("controller", "storage", "group_coordinator", "transaction_coordinator", "quota_manager", "gateway"):
        for name in [name for name in cluster.names if name.partition("-")[0] == role]:
            cluster.restart(name)
            eventually(producer.is_whole, WITHIN_S)
    return lambda: None


STRIKES: dict[str, Strike] = {
    "leader-killed": kill_leader,
    "follower-killed": kill_follower,
    "gateway-killed": kill_gateway,
    "controller-killed": kill_controller,
    "leader-and-controller-killed": kill_leader_and_controller,
    "leader-silent": silence_leader,
    "rolling-restart": roll,
}


def measure(
    chosen: Sequence[str],
    *,
    repetitions: int,
    factor: int,
    durability: str,
    refresh_ms: int,
    anew: bool,
    explained_in: Path | None,
) -> None:
    with LocalCluster(storage=3, gateways=2, controllers=3) as cluster:
        admin = Admin(cluster.bootstrap)
        admin.create(TOPIC, 1, {"durability": durability}, factor)
        admin.close()
        away_s = AWAY_REFRESHES * refresh_ms / 1000 if refresh_ms != REFRESH_MS else 0.0

        def strike_often(name: str, times: int) -> tuple[list[float], int]:
            """The gaps of one producer, and how many of its records failed."""
            rest_s = REST_S if name in RESTED else 0.0
            with ExitStack() as stack:
                producer = stack.enter_context(SteadyProducer(cluster.bootstrap, TOPIC, replicas=factor, refresh_ms=refresh_ms))
                if explained_in is not None:
                    stack.enter_context(PauseWatch(cluster, producer.times, f"{TOPIC}-0", explained_in))
                gaps = [strike_once(cluster, producer, STRIKES[name], rest_s, away_s) for _ in range(times)]
                return gaps, len(producer.failures)

        for name in chosen:
            struck = [strike_often(name, 1) for _ in range(repetitions)] if anew else [strike_often(name, repetitions)]
            gaps = [gap for gaps_of_one, _ in struck for gap in gaps_of_one]
            case = {"case": name, "system": "penstock", "factor": factor, "durability": durability}
            case |= {"refresh_ms": refresh_ms, "anew": anew}
            say(case | {"gap_ms": summary(gaps), "over_300_ms": over(gaps), "failed": sum(failed for _, failed in struck)})


def strike_once(cluster: LocalCluster, producer: SteadyProducer, strike: Strike, rest_s: float, away_s: float) -> float:
    """The longest gap that it brought, in milliseconds. What failed is started again after `away_s`, or as soon as others have
    taken over."""
    time.sleep(rest_s)
    producer.advance(STEADY_RECORDS, WITHIN_S)
    begun = time.monotonic_ns()
    heal = strike(cluster, producer)
    try:
        producer.advance(AGAIN_RECORDS, HOLD_S)
    except AssertionError:
        pass  # some failures are over only when they are healed
    time.sleep(away_s)
    heal()
    for name in cluster.names:
        if not cluster.is_running(name):
            cluster.start(name)
    cluster.wait_ready()
    producer.advance(AGAIN_RECORDS, WITHIN_S)
    ended = time.monotonic_ns()
    eventually(producer.is_whole, WITHIN_S)
    return longest_gap_ms(producer.times, begun, ended)


def measure_kafka(*, repetitions: int) -> None:
    """Acknowledges from the page cache, as is its default."""
    with tempfile.TemporaryDirectory(prefix="penstock-") as directory, KafkaTrio(Path(directory)) as kafka:
        admin = Admin(kafka.bootstrap)
        admin.create(TOPIC, 1, {"min.insync.replicas": "2"}, 3)
        admin.close()
        with SteadyProducer(kafka.bootstrap, TOPIC, replicas=3) as producer:
            gaps = []
            for _ in range(repetitions):
                producer.advance(STEADY_RECORDS, WITHIN_S)
                node, begun = producer.leader(), time.monotonic_ns()
                kafka.kill(node)
                producer.advance(AGAIN_RECORDS, WITHIN_S)
                gaps.append(longest_gap_ms(producer.times, begun, time.monotonic_ns()))
                kafka.restart(node)
                eventually(producer.is_whole, WITHIN_S)
            say({"case": "leader-killed", "system": "kafka", "factor": 3, "gap_ms": summary(gaps), "over_300_ms": over(gaps)})


def over(gaps_ms: Sequence[float]) -> int:
    return sum(gap > 300 for gap in gaps_ms)


def say(figure: dict[str, object]) -> None:
    print(json.dumps(figure), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.failover")
    parser.add_argument("--only", default=",".join(STRIKES))
    parser.add_argument("--repetitions", type=int, default=30)
    parser.add_argument("--factor", type=int, default=3)
    parser.add_argument("--durability", choices=("synced", "replicated"), default="synced")
    parser.add_argument("--refresh-ms", type=int, default=REFRESH_MS, help="librdkafka's topic.metadata.refresh.interval.ms")
    parser.add_argument("--anew", action="store_true", help="a new producer for each failure")
    parser.add_argument("--explain", type=Path, help="a directory for what all processes show during a long pause")
    parser.add_argument("--kafka", action="store_true", help="nothing but Kafka")
    given = parser.parse_args()
    if not given.kafka:
        measure(
            given.only.split(","),
            repetitions=given.repetitions,
            factor=given.factor,
            durability=given.durability,
            refresh_ms=given.refresh_ms,
            anew=given.anew,
            explained_in=given.explain,
        )
    elif is_available("java") and is_available("kafka"):
        measure_kafka(repetitions=given.repetitions)
    else:
        print("neither Java nor Kafka is here", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
