"""Runs the load generator in C, and reads what it tells."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.bench.lean.build import load_program
from tests.bench.load import Address, BenchError

HAD_ERRORS = 3
"""Its exit status where answers had errors."""
ENDS_WITHIN_S = 60.0
"""After the time of the load itself."""


@dataclass(frozen=True)
class Loaded:
    """One run. `bytes` are those of whole record batches; latencies are µs by the names of their quantiles."""

    api: str
    loop: str
    connections: int
    threads: int
    in_flight: int
    tls: str
    """The version and the cipher of the first connection, or ""."""
    offered_rate: float
    scheduled: int
    seconds: float
    requests: int
    bytes: int
    records: int
    answer_bytes: int
    empty: int
    """Fetched partitions without a whole batch, although there was one."""
    unanswered: int
    throttle_ms: int
    errors: Mapping[str, int]
    cpu_s: float
    latency_us: Mapping[str, float]
    woken_late_us: Mapping[str, float]
    """How long after a request of an open loop was due the generator noticed: it had no core. Latencies contain that."""


def run_load(
    api: str,
    topic: str,
    connections: Sequence[str],
    seconds: float,
    options: Mapping[str, object] | None = None,
    *,
    with_errors: bool = False,
) -> Loaded:
    """`options`: what load.c takes besides, e.g. `{"in-flight": 5}`. Raises BenchError if the run came to no figure, or if
    answers had errors and not `with_errors`."""
    extra = [f"--{name}" if value is True else f"--{name}={value}" for name, value in (options or {}).items()]
    argv = [str(load_program()), api, f"--topic={topic}", f"--seconds={seconds}", *extra, *connections]
    drain_s = float(str((options or {}).get("drain", 10)))
    ended = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", timeout=seconds + drain_s + ENDS_WITHIN_S
    )
    if ended.returncode not in (0, HAD_ERRORS):
        raise BenchError(ended.stderr.strip() or f"the load generator ended with {ended.returncode}")
    loaded = Loaded(**json.loads(ended.stdout))
    if loaded.errors and not with_errors:
        raise BenchError(f"{api}s of {topic} were answered with {', '.join(f'{name}: {n}' for name, n in loaded.errors.items())}")
    return loaded


def plan_connections(leaders: Sequence[Address], connections: int) -> list[str]:
    """For each connection the leader and the partitions that it serves. Partitions are shared out evenly, or taken by several."""
    if connections >= len(leaders):
        return [_argument(leaders[i % len(leaders)], [i % len(leaders)]) for i in range(connections)]
    of_leader: dict[Address, list[int]] = {}
    for partition, leader in enumerate(leaders):
        of_leader.setdefault(leader, []).append(partition)
    if connections < len(of_leader):
        raise BenchError(f"{connections} connections cannot reach {len(of_leader)} leaders")
    by_turn = list(of_leader.items())
    plan = []
    for i in range(connections):
        leader, partitions = by_turn[i % len(by_turn)]
        sharing = len(range(i % len(by_turn), connections, len(by_turn)))
        plan.append(_argument(leader, partitions[i // len(by_turn) :: sharing]))
    return plan


def _argument(leader: Address, partitions: Sequence[int]) -> str:
    return f"{leader[0]}:{leader[1]}/{','.join(map(str, partitions))}"
