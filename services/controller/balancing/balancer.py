"""Self-balancing during a term: it keeps replicas and leaderships even, and empties decommissioned nodes.

Each check decides anew on the current image. Only two facts are kept, and a successor does without them. One is since when nodes
are away. The other is whether balancing has begun: it goes on until nodes are even, although it would not begin for a small
difference.
"""

import asyncio
import logging
import operator
from collections.abc import Callable, Sequence

from libs.cluster.configs.resolve import effective_broker_int, effective_broker_value
from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE
from libs.lean_dataclass import dataclass
from services.controller.core.administration.alter_reassignments import Changed
from services.controller.core.balancing.balance_plan import Goal, Plan, Situation, Step, plan
from services.controller.core.balancing.balance_view import NAMED, emptying, planned, under_way
from services.controller.core.balancing.node_absences import Absences
from services.controller.core.balancing.replica_moves import (
    cancelled_moves,
    holders,
    limit_copies,
    moving,
    reassigning,
    retargeted_moves,
    step_changes,
)
from services.controller.core.model.cuts import Cuts
from services.controller.core.model.replica_health import live_nodes
from services.controller.core.model.topic_election_configs import TopicElectionConfigs
from services.controller.core.placement.replica_placement import Node
from services.controller.core.reassignment.decommissioning import leaving
from services.controller.term.fenced_writer import OutcomeUnknown
from services.controller.term.term import Term

log = logging.getLogger("controller")

TICK_S = 1.0
AHEAD = 100
"""Moves that are planned and shown ahead."""

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


class Balancer:
    """The balancer of one controller. `run` lasts for a term."""

    def __init__(self, pipeline: asyncio.Lock, cuts: Callable[[], Cuts]) -> None:
        """`cuts` names the nodes that some processes cannot reach."""
        self._pipeline = pipeline
        self._cuts = cuts
        self._reset()

        self._settings = Settings.of(ClusterImage())
        self._configured_by: object = None
        """The overrides of which `_settings` were read: it is looked at each second."""

    def _reset(self) -> None:
        self._absences = Absences()
        self._evening_out = False
        self._inputs: tuple[object, ...] = ()
        self._holders: set[int] | None = None
        """Nodes that hold replicas, as of `_inputs`. None if there is nothing to do, whichever nodes come or go."""
        self._last_check: tuple[bool, frozenset[int]] | None = None
        """The last check of `_inputs`: whether it was calm, and which nodes were gone."""
        self._suggested: list[Step] = []
        self._states: dict[int, str] = {}
        self.plan = Plan()
        """The plan of the last check."""

    async def run(self, term: Term) -> None:
        """Raises Deposed."""
        self._reset()
        try:
            while True:
                await self._check(term)
                await asyncio.sleep(TICK_S)
        finally:
            self._reset()

    def debug(self, image: ClusterImage) -> object:
        """The view for the admin port. A standby shows what the metadata alone says."""
        now = asyncio.get_running_loop().time()
        return {
            "mode": Settings.of(image).mode,
            "away_s": {str(node_id): round(away_s) for node_id, away_s in self._absences.away_s(now).items()},
            "moving": under_way(image, moving(image)),
            "planned": planned(image, self.plan.steps),
            "decommissioning": {str(n): emptying(image, n, self.plan.stuck) for n in sorted(leaving(image))},
        }

    async def _check(self, term: Term) -> None:
        image, now = term.image, asyncio.get_running_loop().time()
        if self._configured_by is not image.overrides_by_resource:
            self._configured_by, self._settings = image.overrides_by_resource, Settings.of(image)
        settings, members = self._settings, image.members(STORAGE)
        here = {node_id for node_id, member in members.items() if not member.stopping}
        self._absences.observe(image.nodes, here, now)
        # All partitions are scanned only if something has changed, and not each second.
        inputs = (image.partition_table, image.topics_by_id, members, image.overrides_by_resource)
        if not (self._inputs and all(map(operator.is_, self._inputs, inputs))):
            idle = settings.mode == OFF and not leaving(image) and not moving(image)
            self._inputs, self._holders, self._last_check = inputs, None if idle else holders(image), None
        if self._holders is None:
            self.plan = Plan()
            return
        calm = self._absences.calm(now, settings.away_s, self._holders)
        unregistered = self._holders - image.nodes.keys() - members.keys()
        gone = self._absences.gone(now, settings.away_s) | unregistered
        if self._last_check == (calm, gone):
            return
        try:
            async with self._pipeline:
                await term.carry_out(lambda: self._decide(term.image, settings, gone, calm=calm), why="self-balancing")
        except OutcomeUnknown as error:
            log.warning("replicas not moved", extra={"fields": {"reason": str(error)}})
        else:
            self._last_check = calm, gone

    def _decide(self, image: ClusterImage, settings: Settings, gone: frozenset[int], *, calm: bool) -> Changed:
        members, decommissioning = image.members(STORAGE), leaving(image)
        live, rules = live_nodes(members, self._cuts()), TopicElectionConfigs(image)
        nodes = {
            node_id: Node(node_id, member.rack, member.host_id, member.log_dirs)
            for node_id, member in members.items()
            if node_id not in decommissioning and not member.stopping
        }
        situation = Situation(image, nodes, decommissioning, gone)
        percentage = 0 if self._evening_out else settings.imbalance_percentage
        self.plan = plan(situation, most=AHEAD, even=calm and settings.mode != OFF, imbalance_percentage=percentage)
        evens_out = any(step.goal is not Goal.EMPTY for step in self.plan.steps)
        self._evening_out = evens_out or (self._evening_out and bool(moving(image)))
        steps = self.plan.steps
        if settings.mode == SUGGEST:
            steps = plan(situation, most=AHEAD, even=False).steps if decommissioning else []
        back = cancelled_moves(image, gone | decommissioning, live, rules.synced)
        replaces = settings.mode == APPLY or bool(decommissioning)
        decided = {(topic_id, index) for topic_id, index, _ in back}
        aimed = retargeted_moves(image, gone, frozenset(nodes) if replaces else frozenset(), live, rules.synced)
        back += [change for change in aimed if change[:2] not in decided]
        begun = limit_copies(steps, settings.moves_max - reassigning(image))
        self._report(image, settings, begun)
        return back + step_changes(image, begun, live, rules.synced)

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
