"""The controller service: it campaigns, and owns the cluster's metadata while it is the active controller.

It sends no commands. It writes state, and all others follow the watch. Nodes and gateways send it requests by RPC.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from libs.clock import Clock
from libs.cluster.election import Election, Leadership
from libs.cluster.features import FEATURE_LEVEL
from libs.cluster.health import LongRunning
from libs.cluster.image import ClusterImage
from libs.cluster.image_follower import ImageFollower
from libs.cluster.records import NO_MARK, STORAGE, ElectedController, MetadataMark
from libs.cluster.store import MetadataStore, StoreUnavailable
from libs.rpc.contracts.controller import (
    AlterReassignments,
    AlterReassignmentsReply,
    ElectLeaders,
    ElectLeadersReply,
    ProducerIdBlock,
)
from libs.runtime.concurrent_jobs import run_until_one_fails
from libs.telemetry.durations import Durations
from services.controller.administration.administration import Administration
from services.controller.administration.cluster_id import new_cluster_id
from services.controller.administration.first_users import log_first_users, new_contents
from services.controller.administration.member_log import MemberLog
from services.controller.balancing.balancer import Balancer
from services.controller.core.administration.first_users import Users
from services.controller.core.model.controller_states import CONTROLLER_TRANSITIONS, ControllerEvent, ControllerState
from services.controller.core.model.cuts import Cuts, no_cuts
from services.controller.core.topics.mutation_quotas import MutationQuotas
from services.controller.core.topics.topics import Randomness
from services.controller.elections.election_traces import ElectionTraces
from services.controller.elections.leader_elections import LeaderElections
from services.controller.elections.log_end_survey import LogEndsByPartition, Survey
from services.controller.elections.partition_reconciler import PartitionReconciler
from services.controller.failure_detection.eviction import MemberEviction
from services.controller.shards.shard_owners import ShardOwners, shards
from services.controller.term import writes
from services.controller.term.fenced_writer import Conflict, Deposed, OutcomeUnknown
from services.controller.term.restored_store import RestoredStore
from services.controller.term.term import Term

log = logging.getLogger("controller")

R = TypeVar("R")
T = TypeVar("T")

RETRY_S = 0.5
DEFERRED_RETRY_S = 0.05
"""Wait before deferred partitions are checked again."""


def _no_check() -> None:
    pass


class NotElected(Exception):
    """This controller is not the active one."""


@dataclass(frozen=True, slots=True)
class Candidacy:
    """What a controller campaigns with."""

    election: Election
    candidate: ElectedController
    """The value that it writes under the election key."""


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    cluster_defaults: Mapping[str, str] = field(default_factory=dict)
    """Cluster-wide broker configs that the first controller of a cluster writes."""
    write_timeout_s: float = 10.0
    """How long one write may take until it is confirmed and the image shows it."""


class Controller:
    """One controller. `run` campaigns and serves terms until it is cancelled. Requests run one at a time, in the order of
    arrival."""

    def __init__(
        self,
        store: MetadataStore,
        follower: ImageFollower,
        candidacy: Candidacy,
        administration: Administration,
        random: Randomness,
        survey: Survey,
        clock: Clock,
        *,
        settings: ControllerSettings = ControllerSettings(),
        traces: ElectionTraces,
        eviction: MemberEviction | None = None,
        seen: MetadataMark = NO_MARK,
    ) -> None:
        """Without `eviction`, every registered member counts as alive. `seen`: how far the former life had seen the metadata."""
        self._store = store
        self._follower = follower
        self._election = candidacy.election
        self._candidate = candidacy.candidate
        self._administration = administration
        self._member_log = MemberLog(candidacy.candidate)
        self._random = random
        self._clock = clock
        self._settings = settings
        self._eviction = eviction
        self._seen = seen
        self._history_concerned = asyncio.Event()
        self._reconcile_needed = asyncio.Event()
        suspected: Callable[[], Collection[int]] = frozenset
        cuts: Callable[[], Cuts] = no_cuts
        if eviction is not None:
            suspected, cuts = eviction.suspected, eviction.cuts
            eviction.subscribe(self._reconcile_needed.set)
        self.traces = traces
        self._reconciler = PartitionReconciler(traces, suspected, cuts)
        self._pipeline = asyncio.Lock()
        self._elections = LeaderElections(survey, self._pipeline, self._reconciler.leaderless, cuts)
        self.balancing = Balancer(self._pipeline, cuts)
        self._shard_owners = ShardOwners(self._pipeline)
        self._term: Term | None = None
        self.state = ControllerState.BACKING_OFF
        self.first_users: Users = {}
        """Users of whom a new cluster gets the passwords. A cluster that is there keeps those that it has."""
        self._denies: Callable[[int], bool] = lambda node_id: False
        self.waiting = 0
        self.registered: Callable[[], bool] = lambda: False
        """Requests that wait for their turn or run."""

    @property
    def elected(self) -> bool:
        """Whether this is the active controller, as far as it knows. Safety comes from fenced writes alone."""
        return self._term is not None and self._term.leadership.valid

    @property
    def unclean_elections(self) -> int:
        return self._elections.unclean_elections

    @property
    def mutation_quotas(self) -> MutationQuotas:
        return self._administration.mutation_quotas

    @property
    def election_times(self) -> Durations:
        return self._reconciler.elections

    @property
    def image(self) -> ClusterImage:
        return self._follower.image

    def ready(self) -> tuple[bool, str]:
        """Readiness for the admin port: it is the active controller, or a standby of one."""
        if not self._follower.verified:
            return False, "the metadata store has not been read"
        if self.elected:
            return True, "the active controller"
        incumbent = self.image.controller
        if incumbent is None or incumbent.node_id == self._candidate.node_id or self._denies(incumbent.node_id):
            return False, "there is no active controller"  # or this controller's former incarnation, until its lease ends
        return True, f"standby of controller {incumbent.node_id}"

    def watch_denials(self, denies: Callable[[int], bool]) -> None:
        """`denies` says whether a controller that the image names as elected denies it. While the store is away, no newer image
        comes."""
        self._denies = denies

    def long_running(self) -> Sequence[LongRunning]:
        """What takes too long, as coordinators say."""
        return self._eviction.long_running() if self._eviction is not None else ()

    def debug(self) -> dict[str, Callable[[], object]]:
        """Views for the admin port."""
        views: dict[str, Callable[[], object]] = {
            "image": self._summary,
            "balancing": self._balancing,
            "mutations": lambda: self.mutation_quotas.view(asyncio.get_running_loop().time()),
        }
        if self._eviction is not None:
            views["detection"] = self._eviction.debug
        return views

    async def run(self) -> None:
        """Campaigns and serves terms until cancelled. Needs a started follower. When cancelled, it resigns, so that a successor
        need not wait for the lease to expire."""
        unsubscribe = self._follower.subscribe(self._image_changed)
        self._member_log.begin(self.image)
        try:
            await self._election.delete_former()
            while True:
                leadership = await self._campaign()
                try:
                    await self._serve(leadership)
                finally:
                    self._term = None
                    self._transition(ControllerEvent.LOST)
                    with contextlib.suppress(StoreUnavailable):
                        await leadership.resign()
                    self._transition(ControllerEvent.LEFT)
        finally:
            unsubscribe()

    async def _campaign(self) -> Leadership:
        """The leadership, once elected. A controller that is cut off from storage nodes does not campaign for a while."""
        if self._eviction is None:
            self._transition(ControllerEvent.HEARD)
            leadership = await self._election.campaign()
            self._transition(ControllerEvent.ELECTED)
            return leadership
        while True:
            await self._eviction.until_not_cut_off()
            self._transition(ControllerEvent.HEARD)
            campaign = asyncio.ensure_future(self._election.campaign())
            cut_off = asyncio.ensure_future(self._eviction.until_cut_off())
            try:
                await asyncio.wait((campaign, cut_off), return_when=asyncio.FIRST_COMPLETED)
                if campaign.done():
                    leadership = campaign.result()
                    self._transition(ControllerEvent.ELECTED)
                    return leadership
            finally:
                for waiting in (campaign, cut_off):
                    waiting.cancel()
                await asyncio.gather(campaign, cut_off, return_exceptions=True)
            self._transition(ControllerEvent.CUT_OFF)

    def _transition(self, event: ControllerEvent) -> None:
        self.state = CONTROLLER_TRANSITIONS[self.state, event]

    async def administer(self, job: Callable[[Administration, Term], Awaitable[T]], check: Callable[[], None] = _no_check) -> T:
        """Runs `job` alone, on an image that holds all earlier writes. Raises NotElected, and whatever `check` raises when the
        job's turn comes."""
        self.waiting += 1
        try:
            async with self._pipeline:
                term = self.active_term()
                check()
                return await self._carry_out(job, term)
        except Deposed:
            raise NotElected from None
        finally:
            self.waiting -= 1

    async def allocate_producer_ids(self) -> ProducerIdBlock:
        """A block of producer ids. It needs no image, so it does not wait for its turn. Raises NotElected, OutcomeUnknown and
        StoreUnavailable."""
        try:
            return await self.active_term().allocate_producer_ids()
        except Deposed:
            raise NotElected from None

    async def elect_leaders(self, request: ElectLeaders, check: Callable[[], None] = _no_check) -> ElectLeadersReply:
        """Elects leaders. Nodes are surveyed before its turn, so that no other request waits for them. Raises as `administer`,
        and OutcomeUnknown."""
        return await self._after_survey(self._elections.survey_for_election, self._elections.elect, request, check)

    async def alter_reassignments(
        self, request: AlterReassignments, check: Callable[[], None] = _no_check
    ) -> AlterReassignmentsReply:
        """Alters reassignments. Works as `elect_leaders`, since a cancelled reassignment may take an election."""
        return await self._after_survey(self._elections.survey_for_reassignment, self._elections.reassign, request, check)

    async def _after_survey(
        self,
        survey_logs: Callable[[ClusterImage, R], Awaitable[LogEndsByPartition]],
        carry_out: Callable[[Term, R, LogEndsByPartition], Awaitable[T]],
        request: R,
        check: Callable[[], None],
    ) -> T:
        self.active_term()
        log_ends = await survey_logs(self.image, request)
        return await self.administer(lambda _, term: carry_out(term, request, log_ends), check)

    async def _carry_out(self, job: Callable[[Administration, Term], Awaitable[T]], term: Term) -> T:
        try:
            return await job(self._administration, term)
        finally:
            if term.unfinished:
                term.unfinished = False
                self._reconcile_needed.set()

    def _balancing(self) -> object:
        if self.elected:
            return self.balancing.debug(self.image)
        _, why = self.ready()
        return {"elected": False, "active_controller": getattr(self.image.controller, "node_id", None), "this_controller": why}

    def _summary(self) -> object:
        image = self.image
        return {
            "revision": image.revision,
            "cluster_id": image.cluster_id,
            "elected": self.elected,
            "state": self.state.value,
            "waiting": self.waiting,
            "topics": {name: topic.partitions for name, topic in image.topics.items()},
            "members": {role: sorted(members) for role, members in image.members_by_role.items()},
            "shards": shards(image),
            "uncommitted": [topic_id.hex() for topic_id in image.uncommitted_topic_ids()],
        }

    def active_term(self) -> Term:
        """The term of this controller while it is the active one. Raises NotElected otherwise."""
        if self._term is None or not self._term.leadership.valid:
            raise NotElected
        return self._term

    def _image_changed(self, old: ClusterImage, new: ClusterImage) -> None:
        if (
            old.members(STORAGE) is not new.members(STORAGE)
            or old.partition_table is not new.partition_table
            or old.overrides_by_resource is not new.overrides_by_resource
        ):
            self._reconcile_needed.set()
        if old.members(STORAGE) is not new.members(STORAGE) or old.partition_table is not new.partition_table:
            self._history_concerned.set()
        if old.client_quotas is not new.client_quotas:
            self.mutation_quotas.keep_limited(new)
        self.traces.follow(old, new)
        self._member_log.follow(new, active=self._term is not None)
        self._shard_owners.follow(old, new)

    async def _serve(self, leadership: Leadership) -> None:
        term = Term(self._store, self._follower, leadership, write_timeout_s=self._settings.write_timeout_s)
        lost = asyncio.ensure_future(leadership.lost.wait())
        work = asyncio.ensure_future(self._work(term))
        try:
            await asyncio.wait((lost, work), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._term = None
            lost.cancel()
            work.cancel()
            for ended in await asyncio.gather(work, lost, return_exceptions=True):
                if isinstance(ended, Exception) and not isinstance(ended, Deposed):
                    log.error("term ended by a failure", exc_info=ended)
                    await asyncio.sleep(RETRY_S)

    async def _work(self, term: Term) -> None:
        await term.begin()
        await self._create_cluster(term)
        restored_store = RestoredStore(term, self._random, self._seen, self._clock)
        await restored_store.begin()
        self._term = term
        self._transition(ControllerEvent.CAUGHT_UP)
        self._member_log.begin_term(term.image)
        self._reconcile_needed.set()
        self._history_concerned.set()
        jobs = [
            restored_store.run(self._pipeline, self._history_concerned),
            self._reconciling(term, restored_store),
            self._elections.run(term),
            self.balancing.run(term),
            self._shard_owners.run(term),
        ]
        if self._eviction is not None:
            jobs += [self._eviction.write(term), self._resign_when_cut_off(self._eviction, leadership=term.leadership)]
        await run_until_one_fails(*jobs)

    async def _resign_when_cut_off(self, eviction: MemberEviction, leadership: Leadership) -> None:
        await eviction.until_cut_off()
        leadership.lose("half of the storage nodes fell silent together")

    async def _reconciling(self, term: Term, restored_store: RestoredStore) -> None:
        while True:
            await self._reconcile_needed.wait()
            self._reconcile_needed.clear()
            try:
                async with self._pipeline:
                    await restored_store.answer_marks()
                    await self._reconciler.reconcile(term)
                self._elections.wake()
                if self._reconciler.has_deferred:
                    asyncio.get_running_loop().call_later(DEFERRED_RETRY_S, self._reconcile_needed.set)
            except Conflict as conflict:
                await term.catch_up(conflict.revision)
                self._reconcile_needed.set()
            except OutcomeUnknown as error:
                log.warning("partitions not reconciled", extra={"fields": {"reason": str(error)}})
                await asyncio.sleep(RETRY_S)
                self._reconcile_needed.set()

    async def _create_cluster(self, term: Term) -> None:
        """Creates the cluster's id, which never changes. Only the first controller of a cluster does."""
        while not term.image.cluster_id:
            try:
                cluster_id, defaults = new_cluster_id(self._random), dict(self._settings.cluster_defaults)
                await term.commit(writes.cluster_creation(cluster_id, FEATURE_LEVEL, defaults, new_contents(self.first_users)))
                log_first_users(self.first_users)
            except Conflict as conflict:
                await term.catch_up(conflict.revision)
            except OutcomeUnknown as error:
                log.warning("cluster not created", extra={"fields": {"reason": str(error)}})
                await asyncio.sleep(RETRY_S)
