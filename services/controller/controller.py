"""The controller: elected or waiting to be, it owns the cluster's metadata while elected.

It commands nobody. It writes state, and everyone follows the watch; nodes and gateways ask it by RPC.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from libs.cluster import keys
from libs.cluster.codec import RecordError, decode
from libs.cluster.election import Election, Leadership
from libs.cluster.follower import ImageFollower
from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE, ElectedController
from libs.cluster.store import CreateRevisionIs, Delete, MetadataStore, StoreUnavailable
from libs.rpc.contracts.controller import (
    AlterReassignments,
    AlterReassignmentsReply,
    ElectLeaders,
    ElectLeadersReply,
    ProducerIdBlock,
)
from libs.telemetry.durations import Durations
from services.controller import writes
from services.controller.administration import Administration
from services.controller.alongside import alongside
from services.controller.balancing import Balancing
from services.controller.brokers import BrokerKeeper
from services.controller.core.life import LIFE_TRANSITIONS, Life, LifeStep
from services.controller.core.topics import Randomness
from services.controller.elections import Elections
from services.controller.fencing import Conflict, Deposed, Unsettled
from services.controller.identity import new_cluster_id
from services.controller.log_survey import Reaches, Survey
from services.controller.obituaries import Obituaries
from services.controller.shard_owners import ShardOwners, shards
from services.controller.term import Term

log = logging.getLogger(__name__)

R = TypeVar("R")
T = TypeVar("T")

FEATURE_LEVEL = 1
RETRY_S = 0.5
HELD_AGAIN_S = 0.05
"""How soon partitions are looked at again that wait for news of who lives."""


def _go_on() -> None:
    pass


class NotElected(Exception):
    """Somebody else is, or nobody."""


class Controller:
    """`run` campaigns and serves terms until cancelled. Requests are carried out one at a time, in the order of arrival."""

    def __init__(
        self,
        store: MetadataStore,
        follower: ImageFollower,
        election: Election,
        candidate: ElectedController,
        administration: Administration,
        random: Randomness,
        survey: Survey,
        *,
        cluster_defaults: Mapping[str, str] | None = None,
        patience_s: float = 10.0,
        obituaries: Obituaries | None = None,
    ) -> None:
        """Without `obituaries` it believes that whoever is registered lives."""
        self._store = store
        self._follower = follower
        self._election = election
        self._candidate = candidate
        self._administration = administration
        self._random = random
        self._cluster_defaults = dict(cluster_defaults or {})
        self._patience_s = patience_s
        self._obituaries = obituaries
        self._keeper = BrokerKeeper(obituaries.doubted if obituaries is not None else frozenset)
        self._pipeline = asyncio.Lock()
        self._elections = Elections(survey, self._pipeline, self._keeper.leaderless)
        self.balancing = Balancing(self._pipeline)
        self._shard_owners = ShardOwners(self._pipeline)
        self._unsettled = asyncio.Event()
        self._term: Term | None = None
        self.life = Life.STANDING_BACK
        self._denies: Callable[[int], bool] = lambda node_id: False
        self.waiting = 0
        """Requests that wait for their turn, or have it."""

    @property
    def elected(self) -> bool:
        """In office and ready to act, as far as we know. Safety comes from fenced writes alone."""
        return self._term is not None and self._term.leadership.valid

    @property
    def elections_at_a_loss(self) -> int:
        return self._elections.at_a_loss

    @property
    def election_times(self) -> Durations:
        return self._keeper.elections

    @property
    def image(self) -> ClusterImage:
        return self._follower.image

    def ready(self) -> tuple[bool, str]:
        """In office, or warm and standing by while somebody else is."""
        if not self._follower.verified:
            return False, "the metadata store has not been read"
        if self.elected:
            return True, "in office"
        incumbent = self.image.controller
        if incumbent is None or incumbent.node_id == self._candidate.node_id or self._denies(incumbent.node_id):
            return False, "nobody is in office"  # or our former life, until its lease ends
        return True, f"standing by for controller {incumbent.node_id}"

    def heed_denials(self, denies: Callable[[int], bool]) -> None:
        """Of a controller that the image calls elected: it says that it is not. While the store is away, no image will."""
        self._denies = denies

    def debug(self) -> dict[str, Callable[[], object]]:
        """Views for the admin port."""
        views: dict[str, Callable[[], object]] = {"image": self._summary, "balancing": self._balancing}
        if self._obituaries is not None:
            views["detection"] = self._obituaries.debug
        return views

    async def run(self) -> None:
        """Needs a started follower. When cancelled, it resigns, so that a successor need not wait for a lease to expire."""
        unsubscribe = self._follower.subscribe(self._image_changed)
        try:
            await self._retire_former_life()
            while True:
                leadership = await self._campaign()
                try:
                    await self._serve(leadership)
                finally:
                    self._term = None
                    self._step(LifeStep.LOST)
                    with contextlib.suppress(StoreUnavailable):
                        await leadership.resign()
                    self._step(LifeStep.LEFT)
        finally:
            unsubscribe()

    async def _campaign(self) -> Leadership:
        """Returns when elected. Whoever is cut off from storage nodes leaves the office to others for a while."""
        if self._obituaries is None:
            self._step(LifeStep.HEARD)
            leadership = await self._election.campaign()
            self._step(LifeStep.ELECTED)
            return leadership
        while True:
            await self._obituaries.stand_back()
            self._step(LifeStep.HEARD)
            campaign = asyncio.ensure_future(self._election.campaign())
            cut_off = asyncio.ensure_future(self._obituaries.stand_down())
            try:
                await asyncio.wait((campaign, cut_off), return_when=asyncio.FIRST_COMPLETED)
                if campaign.done():
                    leadership = campaign.result()
                    self._step(LifeStep.ELECTED)
                    return leadership
            finally:
                for waiting in (campaign, cut_off):
                    waiting.cancel()
                await asyncio.gather(campaign, cut_off, return_exceptions=True)
            self._step(LifeStep.CUT_OFF)

    def _step(self, step: LifeStep) -> None:
        self.life = LIFE_TRANSITIONS[self.life, step]

    async def administer(self, job: Callable[[Administration, Term], Awaitable[T]], check: Callable[[], None] = _go_on) -> T:
        """Runs `job` alone, on an image that holds all that was written before it. Raises NotElected, and what `check` raises
        when its turn has come."""
        self.waiting += 1
        try:
            async with self._pipeline:
                term = self._in_office()
                check()
                return await self._carry_out(job, term)
        except Deposed:
            raise NotElected from None
        finally:
            self.waiting -= 1

    async def allocate_producer_ids(self) -> ProducerIdBlock:
        """Needs no image, so it does not wait behind others. Raises NotElected, Unsettled and StoreUnavailable."""
        try:
            return await self._in_office().allocate_producer_ids()
        except Deposed:
            raise NotElected from None

    async def elect_leaders(self, request: ElectLeaders, check: Callable[[], None] = _go_on) -> ElectLeadersReply:
        """Nodes are asked before its turn, so that nobody waits for them. Raises as `administer`, and Unsettled."""
        return await self._after_asking(self._elections.ask_for, self._elections.elect, request, check)

    async def alter_reassignments(
        self, request: AlterReassignments, check: Callable[[], None] = _go_on
    ) -> AlterReassignmentsReply:
        """As `elect_leaders`: to cancel may take an election."""
        return await self._after_asking(self._elections.ask_before, self._elections.reassign, request, check)

    async def _after_asking(
        self,
        ask: Callable[[ClusterImage, R], Awaitable[Reaches]],
        carry_out: Callable[[Term, R, Reaches], Awaitable[T]],
        request: R,
        check: Callable[[], None],
    ) -> T:
        self._in_office()
        reaches = await ask(self.image, request)
        return await self.administer(lambda _, term: carry_out(term, request, reaches), check)

    async def _carry_out(self, job: Callable[[Administration, Term], Awaitable[T]], term: Term) -> T:
        try:
            return await job(self._administration, term)
        finally:
            if term.unfinished:
                term.unfinished = False
                self._unsettled.set()

    def _balancing(self) -> object:
        if self.elected:
            return self.balancing.debug(self.image)
        _, why = self.ready()
        return {"elected": False, "in_office": getattr(self.image.controller, "node_id", None), "this_controller": why}

    def _summary(self) -> object:
        image = self.image
        return {
            "revision": image.revision,
            "cluster_id": image.cluster_id,
            "elected": self.elected,
            "life": self.life.value,
            "waiting": self.waiting,
            "topics": {name: topic.partitions for name, topic in image.topics.items()},
            "members": {role: sorted(members) for role, members in image.members_by_role.items()},
            "shards": shards(image),
            "uncommitted": [topic_id.hex() for topic_id in image.uncommitted_topic_ids()],
        }

    async def _retire_former_life(self) -> None:
        """Restarted, we know that whoever holds office in our name is dead: why wait for its lease. Best effort."""
        with contextlib.suppress(StoreUnavailable, RecordError):
            found = await self._store.get(keys.CONTROLLER)
            incumbent = decode(ElectedController, found.value) if found is not None else None
            if found is None or incumbent is None or incumbent.node_id != self._candidate.node_id:
                return
            if incumbent.incarnation < self._candidate.incarnation:
                await self._store.txn([CreateRevisionIs(found.key, found.create_revision)], [Delete(found.key)])

    def _in_office(self) -> Term:
        if self._term is None or not self._term.leadership.valid:
            raise NotElected
        return self._term

    def _image_changed(self, old: ClusterImage, new: ClusterImage) -> None:
        if (
            old.members(STORAGE) is not new.members(STORAGE)
            or old.partition_table is not new.partition_table
            or old.overrides_by_resource is not new.overrides_by_resource
        ):
            self._unsettled.set()
        self._shard_owners.follow(old, new)

    async def _serve(self, leadership: Leadership) -> None:
        term = Term(self._store, self._follower, leadership, patience_s=self._patience_s)
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
        await self._found_cluster(term)
        self._term = term
        self._step(LifeStep.CAUGHT_UP)
        log.info("in office", extra={"fields": {"revision": term.image.revision, "topics": len(term.image.topics)}})
        self._unsettled.set()
        jobs = [self._settling(term), self._elections.run(term), self.balancing.run(term), self._shard_owners.run(term)]
        if self._obituaries is not None:
            jobs += [self._obituaries.write(term), self._resign_when_cut_off(self._obituaries, leadership=term.leadership)]
        await alongside(*jobs)

    async def _resign_when_cut_off(self, obituaries: Obituaries, leadership: Leadership) -> None:
        await obituaries.stand_down()
        leadership.lose("half of the storage nodes fell silent together")

    async def _settling(self, term: Term) -> None:
        while True:
            await self._unsettled.wait()
            self._unsettled.clear()
            try:
                async with self._pipeline:
                    await self._keeper.settle(term)
                self._elections.wake()
                if self._keeper.holds:
                    asyncio.get_running_loop().call_later(HELD_AGAIN_S, self._unsettled.set)
            except Conflict as conflict:
                await term.catch_up(conflict.revision)
                self._unsettled.set()
            except Unsettled as error:
                log.warning("partitions not settled", extra={"fields": {"reason": str(error)}})
                await asyncio.sleep(RETRY_S)
                self._unsettled.set()

    async def _found_cluster(self, term: Term) -> None:
        """The first controller of all names the cluster. Its name never changes."""
        while not term.image.cluster_id:
            try:
                await term.commit(writes.birth(new_cluster_id(self._random), FEATURE_LEVEL, self._cluster_defaults))
            except Conflict as conflict:
                await term.catch_up(conflict.revision)
            except Unsettled as error:
                log.warning("cluster not founded", extra={"fields": {"reason": str(error)}})
                await asyncio.sleep(RETRY_S)
