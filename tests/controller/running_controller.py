"""A controller on a metadata store in memory, and the nodes that it looks after."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from libs.clock import SystemClock
from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.election import Election
from libs.cluster.image import ClusterImage
from libs.cluster.image_follower import ImageFollower
from libs.cluster.records import ElectedController, InSync, Member
from libs.cluster.store import Delete, MetadataStore, Put
from libs.rpc.contracts.controller import (
    CreateTopics,
    NewTopic,
    TopicsReply,
)
from libs.telemetry.tracing.recorder import SpanRecorder, default_tracing
from services.controller.administration.administration import Administration
from services.controller.controller import Candidacy, Controller, ControllerSettings
from services.controller.core.administration.first_users import Users
from services.controller.core.topics.replica_assignment import Limits
from services.controller.elections.election_traces import ElectionTraces
from services.controller.elections.log_end_survey import Key, LogEndsByPartition, Survey
from tests.cluster.conftest import run_virtually
from tests.support.polling import until

TTL_S = 2


@dataclass
class RunningController:
    """A controller in a test. `store` is its own view of the store, whose faults harm nobody else."""

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

    async def image_when(self, holds: Callable[[ClusterImage], bool]) -> ClusterImage:
        await until(lambda: holds(self.image))
        return self.image


@asynccontextmanager
async def running_controller(
    store: MetadataStore,
    node_id: int = 1,
    *,
    write_timeout_s: float = 5.0,
    defaults: dict[str, str] | None = None,
    limits: Limits | None = None,
    survey: Survey | None = None,
    first_users: Users | None = None,
) -> AsyncIterator[RunningController]:
    """A running controller. It resigns at the end."""
    follower = ImageFollower(store)
    await follower.start()
    source = random.Random(node_id)
    candidate = ElectedController(node_id, node_id * 100)
    controller = Controller(
        store,
        follower,
        Candidacy(Election(store, keys.CONTROLLER, candidate, TTL_S), candidate),
        Administration(source, limits or Limits()),
        source,
        survey or _nobody_answers,
        SystemClock(),
        settings=ControllerSettings(defaults or {}, write_timeout_s),
        traces=ElectionTraces(
            SpanRecorder(default_tracing(), f"controller-{node_id}", SystemClock(), time.monotonic), time.monotonic
        ),
    )
    controller.first_users = first_users or {}
    task = asyncio.ensure_future(controller.run())
    try:
        yield RunningController(store, follower, controller)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await follower.close()


async def _nobody_answers(image: ClusterImage, candidates: Mapping[Key, Sequence[InSync]]) -> LogEndsByPartition:
    return {}


async def register(store: MetadataStore, *members: Member) -> None:
    result = await store.txn([], [Put(keys.member(member.role, member.node_id), encode(member)) for member in members])
    assert result.revision


async def vanish(store: MetadataStore, *node_ids: int) -> None:
    await store.txn([], [Delete(keys.member("storage", node_id)) for node_id in node_ids])


def story(scenario: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """A test that runs on virtual time."""

    def run() -> None:
        run_virtually(scenario())

    run.__name__, run.__doc__ = scenario.__name__, scenario.__doc__
    return run
