"""A simulated group coordinator, built as its service's `__main__` builds it."""

from random import Random

from libs.runtime.lifecycle import Lifecycle
from services.group_coordinator import process as coordinator_process
from services.group_coordinator.config import GroupCoordinatorConfig
from services.group_coordinator.service import GroupCoordinator
from tests.simulation.cluster.processes import RPC_PORT, VERSION, Process


class CoordinatorProcess(Process):
    role = "group_coordinator"

    async def serve(self, lifecycle: Lifecycle) -> None:
        config = GroupCoordinatorConfig(self.node_id, (), "/data", rpc_tcp=f"{self.host}:{RPC_PORT}")
        surroundings = coordinator_process.Surroundings(
            clock=self.clock,
            store=self.open_store(),
            transport=self.transport(),
            random=Random(self.random.getrandbits(64)),
            incarnation=self.incarnation(),
            host_id=self.host,
            version=VERSION,
        )

        async def built(coordinator: GroupCoordinator) -> None:
            self.what = coordinator

        await coordinator_process.serve(config, surroundings, lifecycle, built)
