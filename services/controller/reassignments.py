"""Reassignments that operators ask for: decided on the image, written in few transactions."""

from libs.cluster.records import STORAGE
from libs.rpc.contracts.controller import AlterReassignments, AlterReassignmentsReply, ReassignmentResult
from services.controller.administration import Administration
from services.controller.core.reassignment_requests import Changed, alter_reassignments
from services.controller.core.standing import live_nodes
from services.controller.core.topic_rules import TopicRules
from services.controller.term import Term


async def change_reassignments(
    administration: Administration, term: Term, request: AlterReassignments
) -> AlterReassignmentsReply:
    """Raises Unsettled: some of it may have been written, and what is asked again is not done twice."""
    results: tuple[ReassignmentResult, ...] = ()

    def decide() -> Changed:
        nonlocal results
        image = term.image
        rules = TopicRules(image)
        decision = alter_reassignments(image, request, live_nodes(image.members(STORAGE)), rules.synced, rules.unclean)
        results = decision.results
        return decision.changed

    _, revision = await term.carry_out(decide)
    return AlterReassignmentsReply(results, revision)
