"""AlterPartition requests of leaders and withdrawals of nodes: decided on the image, and written in few transactions."""

from collections.abc import Callable, Collection

from libs.cluster.records import STORAGE
from libs.rpc.contracts.controller import AlteredPartition, AlterPartitions, AlterPartitionsReply, Withdraw, WithdrawReply
from services.controller.administration.administration import Administration
from services.controller.core.model.replica_health import live_nodes
from services.controller.core.model.topic_election_configs import TopicElectionConfigs
from services.controller.core.partitions.isr_changes import Changed, alter_partitions, withdraw
from services.controller.term.term import Term

SuspectedNodes = Callable[[], Collection[int]]
"""Registered storage nodes that may be dead."""


async def change_isrs(
    suspected: SuspectedNodes, administration: Administration, term: Term, request: AlterPartitions
) -> AlterPartitionsReply:
    """Raises Refused for a caller of another incarnation, and OutcomeUnknown. The leader then sends its proposal again."""
    results: tuple[AlteredPartition, ...] = ()

    def decide() -> Changed:
        nonlocal results
        image = term.image
        live, synced = live_nodes(image.members(STORAGE)), TopicElectionConfigs(image).synced
        decision = alter_partitions(image, request, live, synced, term.in_doubt, suspected())
        results = decision.results
        return decision.changed

    _, revision = await term.carry_out(decide, why=f"node {request.node_id} proposes it")
    return AlterPartitionsReply(results, revision)


async def withdraw_replicas(
    suspected: SuspectedNodes, administration: Administration, term: Term, request: Withdraw
) -> WithdrawReply:
    """Raises Refused for a caller of another incarnation, and OutcomeUnknown. The node then sends it again, which is harmless."""

    def decide() -> Changed:
        image = term.image
        return withdraw(image, request, live_nodes(image.members(STORAGE)), TopicElectionConfigs(image).synced, suspected())

    _, revision = await term.carry_out(decide, why=f"node {request.node_id} withdraws replicas")
    return WithdrawReply(revision)
