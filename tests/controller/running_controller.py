"""A controller on a metadata store in memory, and the nodes that it looks after."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.election import Election
from libs.cluster.follower import ImageFollower
from libs.cluster.image import ClusterImage
from libs.cluster.records import ElectedController, InSync, Member
from libs.cluster.store import Delete, MetadataStore, Put
from libs.rpc.contracts.controller import CreateTopics, NewTopic, TopicsReply
from services.controller.administration import Administration
from services.controller.core.assignment import Limits
from services.controller.log_survey import Key, Reaches, Survey
from services.controller.service import Controller

TTL_S = 2


@dataclass
class Office:
    """`store` is the controller's own view: its faults harm nobody else."""

    store: MetadataStore
    follower: ImageFollower
    controller: Controller

    @property
    def image(self) -> ClusterImage:
        return self.follower.image

    async def elected(self) -> None:
        await until(lambda: self.controller.elected)

    async def create(self, *topics: NewTopic, validate_only: bool = False) -> TopicsReply:
        request = CreateTopics(topics, validate_only)
        return await self.controller.administer(lambda administration, term: administration.create_topics(term, request))

    async def settled(self, holds: Callable[[ClusterImage], bool]) -> ClusterImage:
        await until(lambda: holds(self.image))
        return self.image


@asynccontextmanager
async def office(
    store: MetadataStore,
    node_id: int = 1,
    *,
    patience_s: float = 5.0,
    defaults: dict[str, str] | None = None,
    limits: Limits | None = None,
    survey: Survey | None = None,
) -> AsyncIterator[Office]:
    """A running controller. It resigns at the end."""
    follower = ImageFollower(store)
    await follower.start()
    source = random.Random(node_id)
    candidate = ElectedController(node_id, node_id * 100)
    controller = Controller(
        store,
        follower,
        Election(store, candidate, TTL_S),
        candidate,
        Administration(source, limits or Limits()),
        source,
        survey or _nobody_answers,
        cluster_defaults=defaults,
        patience_s=patience_s,
    )
    task = asyncio.ensure_future(controller.run())
    try:
        yield Office(store, follower, controller)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await follower.close()


async def _nobody_answers(image: ClusterImage, candidates: Mapping[Key, Sequence[InSync]]) -> Reaches:
    return {}


async def until(holds: Callable[[], bool], timeout_s: float = 60.0) -> None:
    deadline = asyncio.get_running_loop().time() + timeout_s
    while not holds():
        assert asyncio.get_running_loop().time() < deadline, "it never came true"
        await asyncio.sleep(0.005)


async def register(store: MetadataStore, *members: Member) -> None:
    result = await store.txn([], [Put(keys.member(member.role, member.node_id), encode(member)) for member in members])
    assert result.revision


async def vanish(store: MetadataStore, *node_ids: int) -> None:
    await store.txn([], [Delete(keys.member("storage", node_id)) for node_id in node_ids])
