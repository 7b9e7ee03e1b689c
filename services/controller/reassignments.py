"""Reassignments that operators ask for: decided on the image, written in few transactions."""

from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE
from libs.rpc.contracts.controller import AlterReassignments, AlterReassignmentsReply, ReassignmentResult
from services.controller.core.elections import Question
from services.controller.core.reassignment_requests import Changed, Key, alter_reassignments, revert_questions
from services.controller.core.standing import live_nodes
from services.controller.core.topic_rules import TopicRules
from services.controller.log_survey import Reaches
from services.controller.term import Term


def logs_to_ask_for(image: ClusterImage, request: AlterReassignments) -> dict[Key, Question]:
    """Whose logs decide, where to cancel is to lose something."""
    rules = TopicRules(image)
    return revert_questions(image, request, live_nodes(image.members(STORAGE)), rules.synced, rules.unclean)


async def change_reassignments(
    term: Term, request: AlterReassignments, reaches: Reaches
) -> tuple[AlterReassignmentsReply, Changed]:
    """With what was changed. Raises Unsettled: some of it may have been written, and what is asked again is not done twice."""
    results: tuple[ReassignmentResult, ...] = ()

    def decide() -> Changed:
        nonlocal results
        image = term.image
        rules = TopicRules(image)
        live = live_nodes(image.members(STORAGE))
        decision = alter_reassignments(image, request, live, rules.synced, rules.unclean, reaches)
        results = decision.results
        return decision.changed

    changed, revision = await term.carry_out(decide)
    return AlterReassignmentsReply(results, revision), changed
