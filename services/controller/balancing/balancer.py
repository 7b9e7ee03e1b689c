"""Keeps replicas and leaderships even over the nodes, and empties nodes that are being decommissioned, while a term lasts.

Each look decides anew on what is. Only two things are remembered, and a successor does without: since when nodes are away, and
whether evening out has begun, so that it ends where nodes are even and not where they are no longer uneven enough to begin.
"""

import asyncio
import logging
import operator
from collections.abc import Sequence
from dataclasses import dataclass

from libs.cluster.configs.resolve import effective_broker_int, effective_broker_value
from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE
from services.controller.core.absences import Absences
from services.controller.core.balance_view import NAMED, emptying, planned, under_way
from services.controller.core.balancing import Aim, Plan, Situation, Step, plan
from services.controller.core.decommissioning import leaving
from services.controller.core.moves import carried_out, holders, moving, re_aimed, reassigning, taken_back, within
from services.controller.core.placement import Node
from services.controller.core.reassignment_requests import Changed
from services.controller.core.standing import live_nodes
from services.controller.core.topic_rules import TopicRules
from services.controller.fencing import Unsettled
from services.controller.term import Term

log = logging.getLogger(__name__)

TICK_S = 1.0
AHEAD = 100
"""Moves that are planned, and shown."""

OFF, SUGGEST, APPLY = "off", "suggest", "apply"


@dataclass(frozen=True, slots=True)
class Settings:
    mode: str
    moves_max: int
    away_s: float
    imbalance_percentage: int

    @classmethod
    def of(cls, image: ClusterImage) -> "Settings":
        return cls(
            str(effective_broker_value(image, "self.balancing.mode")),
            effective_broker_int(image, "self.balancing.moves.max"),
            effective_broker_int(image, "self.balancing.away.ms") / 1000,
            effective_broker_int(image, "self.balancing.imbalance.percentage"),
        )


class Balancing:
    """`run` lasts for a term."""

    def __init__(self, pipeline: asyncio.Lock) -> None:
        self._pipeline = pipeline
        self._forget()

    def _forget(self) -> None:
        self._absences = Absences()
        self._evening_out = False
        self._seen: tuple[object, ...] = ()
        self._holding: set[int] | None = None
        """Who holds replicas; None where there is nothing to do, whoever comes or goes. As of what was seen last."""
        self._looked_at: tuple[bool, frozenset[int]] | None = None
        """The last look with what was seen: whether it was calm, and who was gone."""
        self._suggested: list[Step] = []
        self._states: dict[int, str] = {}
        self.plan = Plan()
        """As of the last look."""

    async def run(self, term: Term) -> None:
        """Raises Deposed."""
        self._forget()
        try:
            while True:
                await self._look(term)
                await asyncio.sleep(TICK_S)
        finally:
            self._forget()

    def debug(self, image: ClusterImage) -> object:
        """For the admin port. Of a standby controller: what can be seen in the metadata."""
        now = asyncio.get_running_loop().time()
        return {
            "mode": Settings.of(image).mode,
            "away_s": {str(node_id): round(away_s) for node_id, away_s in self._absences.away_s(now).items()},
            "moving": under_way(image, moving(image)),
            "planned": planned(image, self.plan.steps),
            "decommissioning": {str(n): emptying(image, n, self.plan.stuck) for n in sorted(leaving(image))},
        }

    async def _look(self, term: Term) -> None:
        image, now = term.image, asyncio.get_running_loop().time()
        settings, members = Settings.of(image), image.members(STORAGE)
        here = {node_id for node_id, member in members.items() if not member.stopping}
        self._absences.look(image.nodes, here, now)
        # All partitions are scanned where something has changed, and not each second.
        seen = (image.partition_table, image.topics_by_id, members, image.overrides_by_resource)
        if not (self._seen and all(map(operator.is_, self._seen, seen))):
            idle = settings.mode == OFF and not leaving(image) and not moving(image)
            self._seen, self._holding, self._looked_at = seen, None if idle else holders(image), None
        if self._holding is None:
            self.plan = Plan()
            return
        calm = self._absences.calm(now, settings.away_s, self._holding)
        unregistered = self._holding - image.nodes.keys() - members.keys()
        gone = self._absences.gone(now, settings.away_s) | unregistered
        if self._looked_at == (calm, gone):
            return
        try:
            async with self._pipeline:
                await term.carry_out(lambda: self._decide(term.image, settings, gone, calm=calm))
        except Unsettled as error:
            log.warning("replicas not moved", extra={"fields": {"reason": str(error)}})
        else:
            self._looked_at = calm, gone

    def _decide(self, image: ClusterImage, settings: Settings, gone: frozenset[int], *, calm: bool) -> Changed:
        members, going = image.members(STORAGE), leaving(image)
        live, rules = live_nodes(members), TopicRules(image)
        nodes = {
            node_id: Node(node_id, member.rack, member.host_id, member.log_dirs)
            for node_id, member in members.items()
            if node_id not in going and not member.stopping
        }
        situation = Situation(image, nodes, going, gone)
        percentage = 0 if self._evening_out else settings.imbalance_percentage
        self.plan = plan(situation, most=AHEAD, even=calm and settings.mode != OFF, imbalance_percentage=percentage)
        evens_out = any(step.aim is not Aim.EMPTY for step in self.plan.steps)
        self._evening_out = evens_out or (self._evening_out and bool(moving(image)))
        steps = self.plan.steps
        if settings.mode == SUGGEST:
            steps = plan(situation, most=AHEAD, even=False).steps if going else []
        back = taken_back(image, gone | going, live, rules.synced)
        replaces = settings.mode == APPLY or bool(going)
        decided = {(topic_id, index) for topic_id, index, _ in back}
        aimed = re_aimed(image, gone, frozenset(nodes) if replaces else frozenset(), live, rules.synced)
        back += [found for found in aimed if found[:2] not in decided]
        begun = within(steps, settings.moves_max - reassigning(image))
        self._report(image, settings, begun)
        return back + carried_out(image, begun, live, rules.synced)

    def _report(self, image: ClusterImage, settings: Settings, begun: Sequence[Step]) -> None:
        for event, steps in (
            ("moving leaderships", [step for step in begun if not step.copies]),
            ("moving replicas", [step for step in begun if step.copies]),
        ):
            if steps:
                log.info(event, extra={"fields": {"partitions": len(steps), "some": planned(image, steps[:NAMED])}})
        suggested = self.plan.steps if settings.mode == SUGGEST else []
        if suggested and suggested != self._suggested:
            log.info("suggested moves", extra={"fields": {"moves": len(suggested), "some": planned(image, suggested[:NAMED])}})
        self._suggested = suggested
        states = {node_id: str(emptying(image, node_id, self.plan.stuck)["state"]) for node_id in sorted(leaving(image))}
        for node_id, state in states.items():
            if self._states.get(node_id) != state:
                log.info("decommissioning a node", extra={"fields": {"node": node_id, "state": state}})
        self._states = states
