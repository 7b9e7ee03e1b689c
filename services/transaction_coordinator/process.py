"""A whole transaction coordinator process, over the environment that it is given (`libs/coordinator/process/process.py`)."""

from collections.abc import Awaitable, Callable, Mapping

from libs.cluster.image import ClusterImage
from libs.cluster.records import GROUP_COORDINATOR
from libs.coordinator.process import process
from libs.rpc.contracts.controller import ALLOCATE_PRODUCER_IDS, AllocateProducerIds, ProducerIdBlock
from libs.rpc.messages.schema import unpack
from libs.rpc.server.rpc_server import Accept
from libs.runtime.lifecycle import Lifecycle
from libs.runtime.member_clients import MemberClients
from libs.runtime.process import Environment
from libs.runtime.producer_ids import ProducerIds
from services.transaction_coordinator.config import TransactionCoordinatorConfig
from services.transaction_coordinator.coordinator import TransactionCoordinator
from services.transaction_coordinator.protocol.leader_requests import LeaderRequests
from services.transaction_coordinator.protocol.transaction_requests import TransactionRequests

ALLOCATION_S_MAX = 5.0


class _Requests:
    """All RPC methods of the process."""

    def __init__(self, clients: TransactionRequests, leaders: LeaderRequests, producer_ids: ProducerIds) -> None:
        self._clients, self._leaders, self._producer_ids = clients, leaders, producer_ids

    @property
    def methods(self) -> Mapping[str, Accept]:
        return {**self._clients.methods, **self._leaders.methods}

    def follow(self, image: ClusterImage) -> None:
        self._clients.follow(image)
        if image.controller is not None:
            self._producer_ids.prefetch()

    async def close(self) -> None:
        self._producer_ids.close()
        await self._clients.close()


async def serve(
    config: TransactionCoordinatorConfig,
    environment: Environment,
    lifecycle: Lifecycle,
    on_built: Callable[[TransactionCoordinator], Awaitable[None]],
) -> None:
    """Runs a coordinator; returns when it is registered, or with a borrowed image when it answers requests.

    `on_built` is awaited before anything is started.
    """

    async def build(context: process.BuildContext) -> tuple[TransactionCoordinator, _Requests]:
        async def allocate() -> ProducerIdBlock:
            response = await context.controllers.call(ALLOCATE_PRODUCER_IDS, AllocateProducerIds(), timeout_s=ALLOCATION_S_MAX)
            return unpack(ProducerIdBlock, response.body)

        groups = MemberClients(GROUP_COORDINATOR, context.hello, environment.identity.host_id, environment.transport)
        coordinator = TransactionCoordinator(context.owner, context.nodes, groups, environment.clock, context.recorder)
        await on_built(coordinator)
        producer_ids = ProducerIds(allocate)
        shards, completions = coordinator.shards, coordinator.completions
        counted, traces = coordinator.meters.answered, coordinator.traces
        clients = TransactionRequests(
            shards, lambda: coordinator.image, producer_ids, completions, counted, context.spans, traces.asked, traces.refused
        )
        leaders = LeaderRequests(shards, lambda: coordinator.image, completions, context.spans)
        return coordinator, _Requests(clients, leaders, producer_ids)

    await process.serve(config, environment, lifecycle, build, hand_over_s=config.hand_over_s)
