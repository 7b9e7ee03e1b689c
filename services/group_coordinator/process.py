"""A whole group coordinator process, over the environment that it is given. `libs/coordinator/process/process.py` says how it
runs."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from libs.cluster.image import ClusterImage
from libs.coordinator.process import process
from libs.rpc.server.rpc_server import Accept
from libs.runtime.lifecycle import Lifecycle, end_task
from libs.runtime.process import Environment
from libs.transactions.transaction_coordinators import TransactionCoordinators
from services.group_coordinator.config import GroupCoordinatorConfig
from services.group_coordinator.coordinator import GroupCoordinator, MakeMachine, group_machine
from services.group_coordinator.protocol.commit_verification import CommitVerification
from services.group_coordinator.protocol.group_requests import GroupRequests
from services.group_coordinator.protocol.transaction_markers import TransactionMarkers


class _Requests:
    """All RPC methods of the process."""

    def __init__(self, clients: GroupRequests, markers: TransactionMarkers, verification: CommitVerification) -> None:
        self._clients, self._markers, self._verification = clients, markers, verification

    @property
    def methods(self) -> Mapping[str, Accept]:
        return {**self._clients.methods, **self._markers.methods}

    def follow(self, image: ClusterImage) -> None:
        self._verification.coordinators.follow(image)
        self._clients.follow(image)

    async def close(self) -> None:
        self._verification.close()
        await self._clients.close()
        await self._verification.coordinators.close()


async def serve(
    config: GroupCoordinatorConfig,
    environment: Environment,
    lifecycle: Lifecycle,
    on_built: Callable[[GroupCoordinator], Awaitable[None]],
    make_machine: MakeMachine = group_machine,
) -> None:
    """Runs a coordinator; returns when it is registered, or with a borrowed image when it answers requests.

    `on_built` is awaited before anything is started.
    """

    async def build(context: process.BuildContext) -> tuple[GroupCoordinator, _Requests]:
        clock = environment.clock
        coordinator = GroupCoordinator(
            context.owner, context.nodes, clock, make_machine, context.recorder, lag_series_max=config.lag_series_max
        )
        await on_built(coordinator)
        watching_lag = asyncio.create_task(coordinator.lag_series.run(), name="lag as metrics")
        lifecycle.on_stop(lambda: end_task(watching_lag))
        transaction_coordinators = TransactionCoordinators(context.hello, environment.identity.host_id, environment.transport)
        verification = CommitVerification(transaction_coordinators)
        clients = GroupRequests(
            coordinator.shards,
            environment.random,
            coordinator.meters.answered,
            verification,
            lambda: coordinator.topics,
            coordinator.open_epoch,
            context.spans,
            coordinator.rebalances.waited,
            shortcuts=config.shortcuts,
        )
        markers = TransactionMarkers(coordinator.shards, lambda: coordinator.image, verification)
        return coordinator, _Requests(clients, markers, verification)

    await process.serve(config, environment, lifecycle, build, hand_over_s=config.hand_over_s)
