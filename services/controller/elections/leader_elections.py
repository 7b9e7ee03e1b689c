"""Elections that membership alone does not decide: at a possible loss, at an operator's wish, and back to preferred leaders.

Who may be elected is decided in core/elections.py and core/leader_requests.py. Logs are asked for outside the pipeline, since a
node may not answer; what was learned counts only if the question is still the same afterwards.
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
from services.controller.alongside import alongside
from services.controller.core.elections import Question, elect_by_logs, whom_to_ask
from services.controller.core.leader_requests import Changed, Key, elect_leaders, overdue_preferred, unclean_questions
from services.controller.core.standing import LiveNode, live_nodes
from services.controller.core.topic_rules import TopicRules
from services.controller.fencing import Unsettled
from services.controller.log_survey import Reaches, Survey
from services.controller.reassignments import change_reassignments, logs_to_ask_for
from services.controller.term import Term

log = logging.getLogger(__name__)

RETRY_S = 1.0
TICK_S = 1.0
"""How soon a changed interval of leader balancing is noticed."""


def _question(image: ClusterImage, key: Key, rules: TopicRules, live: Mapping[int, LiveNode]) -> Question | None:
    topic_id, index = key
    state = image.partition(topic_id, index) if topic_id in image.topics_by_id else None
    if state is None:
        return None
    return whom_to_ask(state, live, synced=rules.synced(topic_id), unclean=rules.unclean(topic_id))


class Elections:
    """`run` lasts for a term. `leaderless` names the partitions that the last settling left without a leader."""

    def __init__(self, survey: Survey, pipeline: asyncio.Lock, leaderless: Callable[[], Iterable[Key]]) -> None:
        self._survey = survey
        self._pipeline = pipeline
        self._leaderless = leaderless
        self._wanted = asyncio.Event()
        self.at_a_loss = 0
        """Leaders elected so far that may lack what was acknowledged."""

    def wake(self) -> None:
        """After each settling."""
        self._wanted.set()

    async def run(self, term: Term) -> None:
        """Raises Deposed."""
        await alongside(self._last_resorts(term), self._balancing(term))

    async def ask_for(self, image: ClusterImage, request: ElectLeaders) -> Reaches:
        """What has to be known before `elect`."""
        questions = unclean_questions(image, request, live_nodes(image.members(STORAGE)))
        return await self._ask(image, questions) if questions else {}

    async def elect(self, term: Term, request: ElectLeaders, reaches: Reaches) -> ElectLeadersReply:
        """Raises Refused, and Unsettled: to ask again is harmless."""
        results: tuple[ElectedLeader, ...] = ()

        def decide() -> Changed:
            nonlocal results
            decision = elect_leaders(term.image, request, live_nodes(term.image.members(STORAGE)), reaches)
            results = decision.results
            return decision.changed

        changed, revision = await term.carry_out(decide)
        self._report(term.image, changed, reaches)
        return ElectLeadersReply(results, revision)

    async def ask_before(self, image: ClusterImage, request: AlterReassignments) -> Reaches:
        """What has to be known before `reassign`."""
        questions = logs_to_ask_for(image, request)
        return await self._ask(image, questions) if questions else {}

    async def reassign(self, term: Term, request: AlterReassignments, reaches: Reaches) -> AlterReassignmentsReply:
        """A reassignment that is cancelled may be an election. Raises Unsettled."""
        reply, changed = await change_reassignments(term, request, reaches)
        self._report(term.image, changed, reaches)
        return reply

    async def _last_resorts(self, term: Term) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            while questions := self._questions(term.image):
                reaches = await self._ask(term.image, questions)
                if await self._elect_by_logs(term, questions, reaches) < len(questions):
                    await asyncio.sleep(RETRY_S)

    def _questions(self, image: ClusterImage) -> dict[Key, Question]:
        rules, live = TopicRules(image), live_nodes(image.members(STORAGE))
        found = ((key, _question(image, key, rules, live)) for key in self._leaderless())
        return {key: question for key, question in found if question is not None}

    async def _ask(self, image: ClusterImage, questions: Mapping[Key, Question]) -> Reaches:
        return await self._survey(image, {key: question.candidates for key, question in questions.items()})

    async def _elect_by_logs(self, term: Term, questions: Mapping[Key, Question], reaches: Reaches) -> int:
        """How many questions are settled, or are none any more."""
        unanswered = 0

        def decide() -> Changed:
            nonlocal unanswered
            unanswered = 0
            image = term.image
            rules, live = TopicRules(image), live_nodes(image.members(STORAGE))
            changed: Changed = []
            for key, question in questions.items():
                state = image.partition(*key)
                if state is None or _question(image, key, rules, live) != question:
                    continue
                elected = elect_by_logs(state, question, reaches.get(key, {}))
                if elected is None:
                    unanswered += 1
                else:
                    changed.append((*key, elected))
            return changed

        async with self._pipeline:
            try:
                changed, _ = await term.carry_out(decide)
            except Unsettled as error:
                log.warning("elections not settled", extra={"fields": {"reason": str(error)}})
                return 0
        self._report(term.image, changed, reaches)
        return len(questions) - unanswered

    def _report(self, image: ClusterImage, changed: Changed, reaches: Reaches) -> None:
        for topic_id, index, state in changed:
            topic = image.topics_by_id.get(topic_id)
            if not state.recovering or topic is None or (topic_id, index) not in reaches:
                continue
            self.at_a_loss += 1
            ends = {c.node_id: [r.latest_epoch, r.end_offset] for c, r in reaches[topic_id, index].items()}
            found = {"topic": topic.name, "partition": index, "leader": state.leader, "epoch": state.leader_epoch, "logs": ends}
            log.error("elected a leader that may lack acknowledged records", extra={"fields": found})

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
            return overdue_preferred(image, live_nodes(image.members(STORAGE)), percentage)

        async with self._pipeline:
            try:
                changed, _ = await term.carry_out(decide)
            except Unsettled as error:
                log.warning("leaders not moved to preferred replicas", extra={"fields": {"reason": str(error)}})
                return
        if changed:
            log.info("leaders moved to preferred replicas", extra={"fields": {"partitions": len(changed)}})
