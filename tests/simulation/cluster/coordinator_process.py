"""A simulated group coordinator, built as its service's `__main__` builds it."""

from libs.runtime.lifecycle import Lifecycle
from services.group_coordinator import process as coordinator_process
from services.group_coordinator.config import GroupCoordinatorConfig
from services.group_coordinator.coordinator import GroupCoordinator
from tests.simulation.cluster.processes import RPC_PORT, Process


class CoordinatorProcess(Process):
    role = "group_coordinator"

    async def serve(self, lifecycle: Lifecycle) -> None:
        config = GroupCoordinatorConfig(node_id=self.node_id, etcd=(), data_dir="/data", rpc_tcp=f"{self.host}:{RPC_PORT}")

        async def built(coordinator: GroupCoordinator) -> None:
            self.what = coordinator

        await coordinator_process.serve(config, self.environment(self.own_random), lifecycle, built)
