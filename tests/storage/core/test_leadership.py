"""The role of a replica: only the incarnation that the partition state names leads."""

from libs.cluster.records import InSync, PartitionState, Replica
from services.storage.core.replication.leadership import Follow, Lead, assigned_directory, choose_directory, decide_role, hosts


def state(*, leader: int = 1, incarnation: int = 7, epoch: int = 3) -> PartitionState:
    return PartitionState((Replica(1, "d1"), Replica(2, "")), leader, incarnation, epoch, 0, (InSync(1, incarnation),))


def test_the_named_incarnation_leads() -> None:
    assert decide_role(state(), node_id=1, incarnation=7) == Lead(3, (InSync(1, 7),), 0, (1, 2), 7)


def test_a_restarted_process_waits_for_a_state_that_names_it() -> None:
    assert decide_role(state(incarnation=7), node_id=1, incarnation=8) == Follow(1, 3)


def test_another_node_or_none_leads() -> None:
    assert decide_role(state(leader=2), node_id=1, incarnation=7) == Follow(2, 3)
    assert decide_role(state(leader=-1), node_id=1, incarnation=7) == Follow(-1, 3)


def test_a_node_hosts_what_names_it_as_a_replica() -> None:
    assert hosts(state(), 2)
    assert not hosts(state(), 3)
    assert assigned_directory(state(), 1) == "d1"
    assert assigned_directory(state(), 2) == ""


def test_a_new_replica_goes_to_its_assigned_directory_or_else_to_the_emptiest() -> None:
    assert choose_directory({"d1": 9, "d2": 3}, "d1") == "d1"
    assert choose_directory({"d1": 9, "d2": 3}, "") == "d2"
    assert choose_directory({"d1": 3, "d2": 3}, "") == "d1"
    assert choose_directory({}, "") is None


def test_a_replica_whose_directory_is_gone_starts_nowhere_else() -> None:
    assert choose_directory({"d1": 9, "d2": 3}, "gone") is None
