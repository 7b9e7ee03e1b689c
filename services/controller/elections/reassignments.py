"""Reassignments that operators request: decided on the image, written in few transactions."""

from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE
from libs.rpc.contracts.controller import AlterReassignments, AlterReassignmentsReply, ReassignmentResult
from services.controller.core.administration.alter_reassignments import Changed, Key, alter_reassignments, revert_queries
from services.controller.core.elections.leader_election import LogEndQuery
from services.controller.core.model.replica_health import live_nodes
from services.controller.core.model.topic_election_configs import TopicElectionConfigs
from services.controller.elections.log_end_survey import LogEndsByPartition
from services.controller.term.term import Term


def revert_log_end_queries(image: ClusterImage, request: AlterReassignments) -> dict[Key, LogEndQuery]:
    """Queries for the log ends that decide a cancellation which may lose records."""
    rules = TopicElectionConfigs(image)
    return revert_queries(image, request, live_nodes(image.members(STORAGE)), rules.synced, rules.unclean)


async def change_reassignments(
    term: Term, request: AlterReassignments, log_ends: LogEndsByPartition
) -> tuple[AlterReassignmentsReply, Changed]:
    """The reply and the changed partitions. Raises OutcomeUnknown: some changes may be written, and the request may be sent
    again."""
    results: tuple[ReassignmentResult, ...] = ()

    def decide() -> Changed:
        nonlocal results
        image = term.image
        rules = TopicElectionConfigs(image)
        live = live_nodes(image.members(STORAGE))
        decision = alter_reassignments(image, request, live, rules.synced, rules.unclean, log_ends)
        results = decision.results
        return decision.changed

    changed, revision = await term.carry_out(decide, why=f"reassignment, asked by {request.asked_by}")
    return AlterReassignmentsReply(results, revision), changed
