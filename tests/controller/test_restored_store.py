"""Partitions of a metadata store that was restored from a backup: their logs decide who leads."""

from dataclasses import replace

import pytest

from libs.cluster.records import InSync, PartitionState, Replica
from services.controller.core.elections.doubt import EPOCHS_SKIPPED, in_doubt
from services.controller.core.elections.leader_election import ReplicaLogEnd, elect_by_logs, log_end_query
from services.controller.core.model.replica_health import LiveNode
from services.controller.core.partitions.partition_reconciler import SteadyPartitions, reconcile
from services.controller.core.partitions.partition_states import follows_the_table

STATE = PartitionState(tuple(Replica(n, "d") for n in (1, 2, 3)), 1, 1, 4, 9, (InSync(1, 1), InSync(2, 1)))


def live(*nodes: int) -> dict[int, LiveNode]:
    """Nodes that restarted, and whose page caches survived."""
    return {node: LiveNode(2, frozenset({"d"}), survived_from=1) for node in nodes}


@pytest.mark.parametrize("state", [STATE, replace(STATE, leader=-1, leader_incarnation=0)], ids=["led", "without a leader"])
def test_doubt_is_a_step_of_the_table_and_gives_out_no_epoch_twice(state: PartitionState) -> None:
    doubted = in_doubt(state)
    assert follows_the_table(state, doubted)
    assert (doubted.leader, doubted.leader_epoch, doubted.partition_epoch) == (-1, 4 + EPOCHS_SKIPPED, 10)


@pytest.mark.parametrize("synced", [True, False])
def test_no_replica_is_elected_before_all_have_reported_their_logs_not_even_one_of_the_backups_isr(synced: bool) -> None:
    doubted = in_doubt(STATE)
    for nodes in ((1,), (1, 2), (2, 3)):
        assert not SteadyPartitions(live(*nodes))(doubted)
        assert reconcile(doubted, live(*nodes), synced=synced) is doubted
        assert log_end_query(doubted, live(*nodes), synced=synced, unclean=False) is None
    query = log_end_query(doubted, live(1, 2, 3), synced=synced, unclean=False)
    assert query is not None
    ends = {InSync(1, 2): ReplicaLogEnd(4, 10), InSync(2, 2): ReplicaLogEnd(4, 10)}
    assert elect_by_logs(doubted, query, ends) is None
    elected = elect_by_logs(doubted, query, ends | {InSync(3, 2): ReplicaLogEnd(5, 12)})
    assert elected is not None
    assert (elected.leader, elected.isr, elected.recovering) == (3, (InSync(3, 2),), False)
    assert elected.leader_epoch == 5 + EPOCHS_SKIPPED


def test_the_epoch_rises_above_those_of_all_logs() -> None:
    doubted = in_doubt(STATE)
    query = log_end_query(doubted, live(1, 2, 3), synced=True, unclean=False)
    assert query is not None
    ends = {member: ReplicaLogEnd(5000 - member.node_id, 7) for member in query.candidates}
    elected = elect_by_logs(doubted, query, ends)
    assert elected is not None
    assert (elected.leader, elected.leader_epoch) == (1, 5000)


def test_a_replica_that_a_reassignment_adds_is_not_waited_for() -> None:
    doubted = in_doubt(replace(STATE, adding=(3,)))
    assert [member.node_id for member in doubted.isr] == [1, 2]
    assert log_end_query(doubted, live(1, 2), synced=True, unclean=False) is not None
