"""Elections that need more than membership: unclean and last-resort ones, those of operators, and returns to preferred leaders.

`services/controller/core/elections/` and `services/controller/core/administration/elect_leaders.py` decide. Surveys of logs run
outside the pipeline, since a node may not answer. Their results count only if the same query is still open afterwards.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from libs.cluster.configs.resolve import effective_broker_bool, effective_broker_int
from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE
from libs.rpc.contracts.controller import (
    AlterReassignments,
    AlterReassignmentsReply,
    ElectedLeader,
    ElectLeaders,
    ElectLeadersReply,
)
from libs.runtime.concurrent_jobs import run_until_one_fails
from services.controller.core.administration.elect_leaders import (
    Changed,
    Key,
    elect_leaders,
    overdue_preferred,
    unclean_queries,
)
from services.controller.core.elections.leader_election import LogEndQuery, elect_by_logs, log_end_query
from services.controller.core.model.cuts import Cuts
from services.controller.core.model.replica_health import LiveNode, live_nodes
from services.controller.core.model.topic_election_configs import TopicElectionConfigs
from services.controller.elections.log_end_survey import LogEndsByPartition, Survey
from services.controller.elections.reassignments import change_reassignments, revert_log_end_queries
from services.controller.term.fenced_writer import OutcomeUnknown
from services.controller.term.term import Term

log = logging.getLogger("elections")

RETRY_S = 1.0
TICK_S = 1.0
"""How soon a changed interval of leader balancing takes effect."""


def _query(image: ClusterImage, key: Key, rules: TopicElectionConfigs, live: Mapping[int, LiveNode]) -> LogEndQuery | None:
    topic_id, index = key
    state = image.partition(topic_id, index) if topic_id in image.topics_by_id else None
    if state is None:
        return None
    return log_end_query(state, live, synced=rules.synced(topic_id), unclean=rules.unclean(topic_id))


class LeaderElections:
    """The elections of one controller. `run` lasts for a term. `leaderless` names the partitions that the last reconciliation
    left without a leader, `cuts` the nodes that some processes cannot reach."""

    def __init__(
        self, survey: Survey, pipeline: asyncio.Lock, leaderless: Callable[[], Iterable[Key]], cuts: Callable[[], Cuts]
    ) -> None:
        self._survey = survey
        self._pipeline = pipeline
        self._leaderless = leaderless
        self._cuts = cuts
        self._needed = asyncio.Event()
        self.unclean_elections = 0
        """Leaders elected so far that may lack acknowledged records."""

    def wake(self) -> None:
        """Looks for last-resort elections. Call it after each reconciliation."""
        self._needed.set()

    async def run(self, term: Term) -> None:
        """Raises Deposed."""
        await run_until_one_fails(self._last_resorts(term), self._balancing(term))

    def _live(self, image: ClusterImage) -> Mapping[int, LiveNode]:
        return live_nodes(image.members(STORAGE), self._cuts())

    async def survey_for_election(self, image: ClusterImage, request: ElectLeaders) -> LogEndsByPartition:
        """The log ends that `elect` needs."""
        queries = unclean_queries(image, request, self._live(image))
        return await self._run_survey(image, queries) if queries else {}

    async def elect(self, term: Term, request: ElectLeaders, log_ends: LogEndsByPartition) -> ElectLeadersReply:
        """Raises Refused and OutcomeUnknown. The request may be sent again."""
        results: tuple[ElectedLeader, ...] = ()

        def decide() -> Changed:
            nonlocal results
            decision = elect_leaders(term.image, request, self._live(term.image), log_ends)
            results = decision.results
            return decision.changed

        changed, revision = await term.carry_out(decide, why=f"asked by {request.asked_by}")
        self._report(term.image, changed, log_ends)
        return ElectLeadersReply(results, revision)

    async def survey_for_reassignment(self, image: ClusterImage, request: AlterReassignments) -> LogEndsByPartition:
        """The log ends that `reassign` needs."""
        queries = revert_log_end_queries(image, request)
        return await self._run_survey(image, queries) if queries else {}

    async def reassign(self, term: Term, request: AlterReassignments, log_ends: LogEndsByPartition) -> AlterReassignmentsReply:
        """Alters reassignments. A cancelled one may take an election. Raises OutcomeUnknown."""
        reply, changed = await change_reassignments(term, request, log_ends)
        self._report(term.image, changed, log_ends)
        return reply

    async def _last_resorts(self, term: Term) -> None:
        while True:
            await self._needed.wait()
            self._needed.clear()
            while queries := self._queries(term.image):
                log_ends = await self._run_survey(term.image, queries)
                if await self._elect_by_logs(term, queries, log_ends) < len(queries):
                    await asyncio.sleep(RETRY_S)

    def _queries(self, image: ClusterImage) -> dict[Key, LogEndQuery]:
        rules, live = TopicElectionConfigs(image), self._live(image)
        by_key = ((key, _query(image, key, rules, live)) for key in self._leaderless())
        return {key: query for key, query in by_key if query is not None}

    async def _run_survey(self, image: ClusterImage, queries: Mapping[Key, LogEndQuery]) -> LogEndsByPartition:
        return await self._survey(image, {key: query.candidates for key, query in queries.items()})

    async def _elect_by_logs(self, term: Term, queries: Mapping[Key, LogEndQuery], log_ends: LogEndsByPartition) -> int:
        """The number of queries that are answered, or no longer open."""
        unanswered = 0

        def decide() -> Changed:
            nonlocal unanswered
            unanswered = 0
            image = term.image
            rules, live = TopicElectionConfigs(image), self._live(image)
            changed: Changed = []
            for key, query in queries.items():
                state = image.partition(*key)
                if state is None or _query(image, key, rules, live) != query:
                    continue
                elected = elect_by_logs(state, query, log_ends.get(key, {}))
                if elected is None:
                    unanswered += 1
                else:
                    changed.append((*key, elected))
            return changed

        async with self._pipeline:
            try:
                changed, _ = await term.carry_out(decide, why="the most complete log of those that answered")
            except OutcomeUnknown as error:
                log.warning("elections not written", extra={"fields": {"reason": str(error)}})
                return 0
        self._report(term.image, changed, log_ends)
        return len(queries) - unanswered

    def _report(self, image: ClusterImage, changed: Changed, log_ends: LogEndsByPartition) -> None:
        for topic_id, index, state in changed:
            topic = image.topics_by_id.get(topic_id)
            if not state.recovering or topic is None or (topic_id, index) not in log_ends:
                continue
            self.unclean_elections += 1
            ends = {c.node_id: [r.latest_epoch, r.end_offset] for c, r in log_ends[topic_id, index].items()}
            details = {"topic": topic.name, "partition": index, "leader": state.leader, "epoch": state.leader_epoch, "logs": ends}
            log.error("elected a leader that may lack acknowledged records", extra={"fields": details})

    async def _balancing(self, term: Term) -> None:
        loop = asyncio.get_running_loop()
        checked = loop.time()
        while True:
            await asyncio.sleep(TICK_S)
            if loop.time() - checked < effective_broker_int(term.image, "leader.imbalance.check.interval.seconds"):
                continue
            checked = loop.time()
            if effective_broker_bool(term.image, "auto.leader.rebalance.enable"):
                await self._balance(term)

    async def _balance(self, term: Term) -> None:
        def decide() -> Changed:
            image = term.image
            percentage = effective_broker_int(image, "leader.imbalance.per.broker.percentage")
            return overdue_preferred(image, self._live(image), percentage)

        async with self._pipeline:
            try:
                changed, _ = await term.carry_out(decide, why="the preferred replica may lead again")
            except OutcomeUnknown as error:
                log.warning("leaders not moved to preferred replicas", extra={"fields": {"reason": str(error)}})
                return
        if changed:
            log.info("leaders moved to preferred replicas", extra={"fields": {"partitions": len(changed)}})
