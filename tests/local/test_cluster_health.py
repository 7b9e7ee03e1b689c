"""The sentence at the top of `make status`."""

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from services.local.cluster import ProcessStatus
from services.local.cluster_health import ClusterHealth, health_of
from services.local.cluster_plan import ProcessPlan, plan_cluster
from services.local.cluster_shape import Shape
from services.local.processes import Memory
from services.local.run_directory import RunDirectory


def plans_of(shape: Shape) -> dict[str, ProcessPlan]:
    return {plan.name: plan for plan in plan_cluster(shape, RunDirectory("/run"), python=Path("python"), etcd=Path("etcd"))}


PLANS, OF_NODES = plans_of(Shape()), plans_of(Shape(roles="node"))


def told(verdict: str, sentence: str, since_ms: int | None = None) -> str:
    counts = {"offline": 0, "under_min_isr": 0, "under_replicated": 3}
    said = {"verdict": verdict, "sentence": sentence, "since_ms": since_ms, "counts": counts, "moving": 1, "leaders": {"1": 2}}
    away = [2] if "storage-2" in sentence else []
    return json.dumps({**said, "storage_nodes_away": away})


def health(
    *answers: str, down: tuple[str, ...] = (), waiting: tuple[str, ...] = (), plans: Mapping[str, ProcessPlan] = PLANS
) -> ClusterHealth:
    statuses = [
        ProcessStatus(plan, None if name in down else 7, name not in (*down, *waiting), "reads its log", Memory(1, 0))
        for name, plan in plans.items()
    ]
    return health_of(statuses, answers)


def test_the_clusters_own_words_stand_first() -> None:
    assert health(told("healthy", "healthy")).sentence == "healthy"
    found = health(told("degraded", "degraded: storage-2 is down"), down=("storage-2",))
    assert found.sentence == "degraded: storage-2 is down, `make up` starts storage-2"
    found = health(told("degraded", "degraded: storage-2 is down"), down=("storage-2", "gateway-1"))
    assert found.sentence == "degraded: storage-2 is down, gateway-1 does not run (`make up`)"
    assert found.details == (
        "partitions: 0 offline, 0 below min.insync.replicas, 3 under-replicated, 1 moving; leaders: storage-1 2"
    )


def test_nodes_have_the_names_of_their_rows() -> None:
    found = health(told("degraded", "degraded: storage-2 is down"), down=("node-2",), plans=OF_NODES)
    assert found.sentence == "degraded: node-2 is down, `make up` starts node-2"
    assert found.details.endswith("leaders: node-1 2")


def test_a_process_that_is_down_or_not_ready_degrades_a_cluster_that_calls_itself_healthy() -> None:
    found = health(told("healthy", "healthy"), down=("gateway-1",), waiting=("storage-3",))
    assert found.sentence == "degraded: gateway-1 does not run (`make up`), storage-3 is not ready (reads its log)"


def test_since_when_is_told_where_it_is_known_and_of_that_verdict() -> None:
    known = told("degraded", "degraded: storage-2 is down", since_ms=0)
    assert health(known).since == f"degraded since {datetime.fromtimestamp(0):%Y-%m-%d %H:%M:%S}"
    assert health(told("degraded", "degraded: storage-2 is down")).since == ""
    assert health(told("healthy", "healthy", since_ms=0), down=("gateway-1",)).since == ""


def test_a_process_that_does_not_know_yet_is_passed_over() -> None:
    unknown, garbage = '{"verdict": "unknown", "leaders": {}}', "no answer"
    assert health(unknown, garbage, told("healthy", "healthy")).verdict == "healthy"
    found = health(unknown, garbage)
    assert (found.verdict, found.details) == ("unknown", "")
    assert found.sentence == "unknown: no process tells the state of the cluster"


def test_what_is_old_is_told_as_old_where_nobody_knows_better() -> None:
    words = "unknown: the metadata store (etcd) does not answer; what it said last: healthy"
    found = health(told("unknown", words), down=("etcd",))
    assert found.sentence == f"{words}, etcd does not run (`make up`)"
    assert found.details.startswith("partitions (old): ")
    assert health(told("unknown", words), told("healthy", "healthy")).sentence == "healthy"


def test_a_cluster_that_is_down_says_what_starts_it() -> None:
    assert health(down=tuple(PLANS)).sentence == "stopped: no process runs; `make up` starts them"
