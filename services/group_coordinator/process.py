"""A whole group coordinator process, over the environment that it is given. `libs/coordinator/process.py` says how it runs."""

import asyncio
from collections.abc import Awaitable, Callable

from libs.cluster.shard_owners import Owner
from libs.coordinator import process
from libs.runtime.controllers import Controllers
from libs.runtime.lifecycle import Lifecycle, end_task
from libs.runtime.process import Environment
from libs.runtime.storage_nodes import StorageNodes
from services.group_coordinator.config import GroupCoordinatorConfig
from services.group_coordinator.coordinator import GroupCoordinator, MakeMachine, group_machine
from services.group_coordinator.protocol.group_requests import GroupRequests

FEATURE_LEVEL = 1


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

    async def build(owner: Owner, nodes: StorageNodes, _: Controllers) -> tuple[GroupCoordinator, GroupRequests]:
        coordinator = GroupCoordinator(owner, nodes, environment.clock, make_machine, lag_series_max=config.lag_series_max)
        await on_built(coordinator)
        watching_lag = asyncio.create_task(coordinator.lag_series.run(), name="lag as metrics")
        lifecycle.on_stop(lambda: end_task(watching_lag))
        return coordinator, GroupRequests(coordinator.shards, environment.random, coordinator.meters.answered)

    await process.serve(config, environment, lifecycle, build, feature_level=FEATURE_LEVEL, hand_over_s=config.hand_over_s)
