"""What leaders and nodes ask of the controller about in-sync replicas: decided on the image, written in few transactions."""

from collections.abc import Callable, Collection

from libs.cluster.records import STORAGE
from libs.rpc.contracts.controller import AlteredPartition, AlterPartitions, AlterPartitionsReply, Withdraw, WithdrawReply
from services.controller.administration import Administration
from services.controller.core.isr import Changed, alter_partitions, withdraw
from services.controller.core.standing import live_nodes
from services.controller.core.topic_rules import TopicRules
from services.controller.term import Term

Doubted = Callable[[], Collection[int]]
"""Storage nodes that may have ended, though they are registered."""


async def change_isrs(
    doubted: Doubted, administration: Administration, term: Term, request: AlterPartitions
) -> AlterPartitionsReply:
    """Raises Refused for a caller of another life, and Unsettled: the leader proposes again, on what its image shows then."""
    results: tuple[AlteredPartition, ...] = ()

    def decide() -> Changed:
        nonlocal results
        image = term.image
        live, synced = live_nodes(image.members(STORAGE)), TopicRules(image).synced
        decision = alter_partitions(image, request, live, synced, term.in_doubt, doubted())
        results = decision.results
        return decision.changed

    _, revision = await term.carry_out(decide)
    return AlterPartitionsReply(results, revision)


async def withdraw_replicas(doubted: Doubted, administration: Administration, term: Term, request: Withdraw) -> WithdrawReply:
    """Raises Refused for a caller of another life, and Unsettled: the node asks again, which is harmless."""

    def decide() -> Changed:
        image = term.image
        return withdraw(image, request, live_nodes(image.members(STORAGE)), TopicRules(image).synced, doubted())

    _, revision = await term.carry_out(decide)
    return WithdrawReply(revision)
