"""The health of a cluster, as its image shows it."""

from dataclasses import replace

import pytest

from libs.cluster.health import (
    DIFFERENT_AUTHORIZERS,
    MARKERS,
    REBALANCE,
    REFUSED_CLIENTS,
    SHOWN_MAX,
    TRANSACTION,
    UNENFORCED_ACLS,
    UNKNOWN_ACLS,
    LongRunning,
    Verdict,
    health_of,
    with_long_running,
)
from libs.cluster.image import ClusterImage
from libs.cluster.records import (
    CONTROLLER,
    GATEWAY,
    GROUP_COORDINATOR,
    QUOTA_MANAGER,
    TRANSACTION_COORDINATOR,
    InSync,
    Member,
    PartitionState,
    QuotaEntity,
    Replica,
)
from tests.controller.images import image_of, storage

OTHERS = [Member(role, 1, 1, "") for role in (CONTROLLER, GATEWAY, GROUP_COORDINATOR, TRANSACTION_COORDINATOR)]
NODES = [storage(node_id) for node_id in (1, 2, 3)]


def partition(leader: int = 1, isr: tuple[int, ...] = (1, 2, 3), replicas: tuple[int, ...] = (1, 2, 3)) -> PartitionState:
    replicas_there = tuple(Replica(node_id, f"d{node_id}") for node_id in replicas)
    return PartitionState(replicas_there, leader, int(leader >= 0), 0, 0, tuple(InSync(node_id, 1) for node_id in isr))


def image(*states: PartitionState, members: list[Member] | None = None, **overrides: str) -> ClusterImage:
    told = {("topic", "t"): overrides} if overrides else None
    return image_of(*(NODES + OTHERS if members is None else members), topics={"t": states}, overrides=told)


def test_a_cluster_whose_replicas_are_all_in_sync_is_healthy() -> None:
    health = health_of(image(partition(1), partition(2), partition(1)))
    assert (health.verdict, health.sentence) == (Verdict.HEALTHY, "healthy")
    assert health.leaders == {1: 2, 2: 1, 3: 0}


def test_a_slow_follower_is_named_and_nobody_waits_for_it_before_the_next_restart() -> None:
    slow = [replace(storage(1), slow_followers=(3,)), replace(storage(2), slow_followers=(3,)), storage(3)]
    told = "storage-3 holds up acks=all of storage-1, storage-2 again and again"
    health = health_of(image(partition(1), members=[*slow, *OTHERS]))
    assert (health.verdict, health.sentence) == (Verdict.HEALTHY, f"healthy: {told}")
    behind = health_of(image(partition(1, (1, 2)), members=[*slow, *OTHERS]))
    assert (behind.verdict, behind.sentence) == (Verdict.DEGRADED, f"degraded: 1 partition is under-replicated, {told}")


def test_a_full_disk_beside_a_slow_follower_is_still_all_that_is_wrong() -> None:
    slow = [replace(storage(1), slow_followers=(3,)), storage(2), replace(storage(3), full_dirs=("/full",))]
    assert health_of(image(partition(1, (1, 2)), members=[*slow, *OTHERS])).faults.only_full


def test_a_process_without_metadata_says_that_it_does_not_know() -> None:
    assert health_of(ClusterImage()).verdict is Verdict.UNKNOWN


def test_replicas_that_are_not_in_sync_and_the_node_that_is_down_are_named() -> None:
    health = health_of(image(partition(1, (1, 2)), partition(2, (1, 2)), members=[*NODES[:2], *OTHERS]))
    assert health.verdict is Verdict.DEGRADED
    assert health.sentence == "degraded: 2 partitions are under-replicated, storage-3 is down"
    assert health.faults.under_replicated == ("t-0", "t-1")
    assert not health.faults.under_min_isr


@pytest.mark.parametrize(
    ("isr", "configs", "refuses"), [((1,), {}, True), ((1, 2), {}, False), ((1, 2), {"min.insync.replicas": "3"}, True)]
)
def test_a_partition_below_min_insync_replicas_is_told(isr: tuple[int, ...], configs: dict[str, str], refuses: bool) -> None:
    health = health_of(image(partition(1, isr), **configs))
    assert ("1 partition is below min.insync.replicas (t-0)" in health.sentence) == refuses
    assert health.verdict is Verdict.DEGRADED


def test_the_first_partitions_below_min_insync_replicas_are_named() -> None:
    health = health_of(image(*[partition(1, (1,))] * 5))
    assert "5 partitions are below min.insync.replicas (t-0, t-1, t-2, …)" in health.sentence


@pytest.mark.parametrize(
    ("state", "members", "reason"),
    [
        (partition(-1, (3,)), NODES[:2], "storage-3 of its in-sync replicas is down: start it"),
        (partition(-1, (2, 3)), NODES[:1], "storage-2, storage-3 of its in-sync replicas are down: start them"),
        (replace(partition(-1, (2,)), withdrawn=(InSync(2, 1),)), NODES, "its log on storage-2 is damaged (docs/inspect.md)"),
        (partition(-1, (2,)), NODES, "its in-sync replicas on storage-2 may lack what was acknowledged"),
    ],
)
def test_an_offline_partition_comes_with_why_and_what_to_do(state: PartitionState, members: list[Member], reason: str) -> None:
    health = health_of(image(partition(1), state, members=[*members, *OTHERS]))
    assert health.verdict is Verdict.OFFLINE
    assert health.sentence.startswith(f"offline: 1 partition is offline (t-1: {reason}")
    assert health.faults.reasons["t-1"].startswith(reason)


def test_a_reassignment_is_no_fault() -> None:
    moved = replace(partition(1, (1, 2), (1, 2, 3)), adding=(3,), removing=(2,))
    health = health_of(image(moved))
    assert (health.verdict, health.moving) == (Verdict.HEALTHY, 1)


@pytest.mark.parametrize(
    ("failed_dirs", "words"),
    [(1, "1 log directory of storage-2 does not work"), (2, "2 log directories of storage-2 do not work")],
)
def test_directories_that_do_not_work_degrade(failed_dirs: int, words: str) -> None:
    failed = replace(NODES[1], failed_dirs=failed_dirs)
    health = health_of(image(partition(1), members=[NODES[0], failed, NODES[2], *OTHERS]))
    assert health.sentence == f"degraded: {words}"


def test_a_full_directory_is_named() -> None:
    full = replace(NODES[1], full_dirs=("/data/a", "/data/b"))
    health = health_of(image(partition(1), members=[NODES[0], full, replace(NODES[2], full_dirs=("/c",)), *OTHERS]))
    assert health.sentence == "degraded: /data/a, /data/b of storage-2 are full, /c of storage-3 is full"
    assert health.as_json()["full_directories"] == {"2": ["/data/a", "/data/b"], "3": ["/c"]}


@pytest.mark.parametrize(
    ("state", "members", "only_full"),
    [
        (partition(1, (1, 3)), NODES, True),
        (partition(1), NODES, True),
        (partition(1, (1, 2)), NODES, False),  # a replica is behind elsewhere
        (partition(3, (3,)), NODES, False),
        (partition(1, (1,)), NODES, False),  # acks=all is refused
        (partition(1, (1, 3)), NODES[:2], False),  # a node is down
        (replace(partition(1, (1, 3), (1, 2, 3)), adding=(2,)), NODES, True),
    ],
)
def test_a_cluster_is_told_from_others_where_full_disks_are_all_that_is_wrong(
    state: PartitionState, members: list[Member], only_full: bool
) -> None:
    full = [replace(node, full_dirs=("/full",)) if node.node_id == 2 else node for node in members]
    assert health_of(image(state, members=[*full, *OTHERS])).as_json()["only_full"] == only_full
    assert not health_of(image(state, members=[*members, *OTHERS])).faults.only_full


def test_a_role_without_any_process_is_told() -> None:
    health = health_of(image(partition(1), members=[*NODES, OTHERS[1]]))
    assert (
        health.sentence == "degraded: no controller is there, no group coordinator is there, no transaction coordinator is there"
    )


def test_a_missing_quota_manager_is_told_where_quotas_are_set() -> None:
    whole = image(partition(1))
    limited = replace(whole, client_quotas={QuotaEntity(user="alice"): {"producer_byte_rate": 1000.0}})
    assert health_of(whole).sentence == "healthy"
    assert health_of(limited).sentence == "degraded: no quota manager is there"
    assert health_of(limited).as_json()["roles_away"] == [QUOTA_MANAGER]
    managed = image(partition(1), members=[*NODES, *OTHERS, Member(QUOTA_MANAGER, 1, 1, "")])
    assert health_of(replace(managed, client_quotas=limited.client_quotas)).sentence == "healthy"


def test_lists_are_cut_and_counts_are_whole() -> None:
    told = health_of(image(*[partition(-1, (3,)) for _ in range(50)], members=[*NODES[:2], *OTHERS])).as_json()
    assert told["counts"] == {"offline": 50, "under_min_isr": 0, "under_replicated": 50}
    assert told["partitions"]["offline"] == [f"t-{index}" for index in range(SHOWN_MAX)]  # type: ignore[index]
    assert len(told["reasons"]) == SHOWN_MAX  # type: ignore[arg-type]


def test_what_takes_too_long_is_named_and_changes_no_verdict() -> None:
    found = [
        LongRunning(REBALANCE, "orders\n", 0),
        LongRunning("of a newer version", "x", 0),
        LongRunning(MARKERS, "t1", 90_000),
        LongRunning(MARKERS, "t2", 95_000),
        LongRunning(TRANSACTION, "t3", 99_000),
    ]
    whole = health_of(image(partition(1)))
    health = with_long_running(whole, found, 180_000)
    assert health.verdict is Verdict.HEALTHY
    assert health.faults == whole.faults
    assert health.sentence == (
        "healthy: group orders? has been rebalancing for 3 min, transaction t3 has been open past its timeout for 81 s, "
        "transaction t1 has been waiting for its markers for 90 s, and 1 more"
    )
    full = with_long_running(whole, [LongRunning(REFUSED_CLIENTS, "2", 0)], 40_000)
    assert full.sentence == "healthy: gateway 2 has been refusing clients beyond max.connections for 40 s"
    ignored = with_long_running(whole, [LongRunning(UNENFORCED_ACLS, "2", 0)], 40_000)
    assert ignored.sentence == "healthy: gateway 2 has no authorizer and has ignored the stored ACLs for 40 s"
    unknown = with_long_running(whole, [LongRunning(UNKNOWN_ACLS, "2", 0)], 40_000)
    assert unknown.sentence == "healthy: gateway 2 has ignored ACLs of kinds that a later version knows for 40 s"
    different = with_long_running(whole, [LongRunning(DIFFERENT_AUTHORIZERS, name, 0) for name in "12"], 40_000)
    told = "healthy: gateway 1 has had other settings of the authorizer than another gateway for 40 s, and 1 more"
    assert different.sentence == told
    assert health.as_json()["long_running"][1] == {"kind": "of a newer version", "name": "x", "since_ms": 0}  # type: ignore[index]
    degraded = with_long_running(health_of(image(partition(1, (1, 2)))), found[:1], 1_000)
    assert degraded.sentence == "degraded: 1 partition is under-replicated, group orders? has been rebalancing for 1 s"
