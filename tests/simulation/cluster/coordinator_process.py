"""Simulated coordinators of groups and of transactions, built as their services' `__main__` builds them."""

from libs.runtime.lifecycle import Lifecycle
from services.group_coordinator import process as coordinator_process
from services.group_coordinator.config import GroupCoordinatorConfig
from services.group_coordinator.coordinator import GroupCoordinator
from services.transaction_coordinator import process as transaction_process
from services.transaction_coordinator.config import TransactionCoordinatorConfig
from services.transaction_coordinator.coordinator import TransactionCoordinator
from tests.simulation.cluster.processes import RPC_PORT, Process
from tests.support.shortcut_halves import has_shortcuts


class CoordinatorProcess(Process):
    role = "group_coordinator"

    async def serve(self, lifecycle: Lifecycle) -> None:
        address, shortcuts = f"{self.host}:{RPC_PORT}", has_shortcuts(self.world.seed)
        config = GroupCoordinatorConfig(node_id=self.node_id, etcd=(), data_dir="/data", rpc_tcp=address, shortcuts=shortcuts)

        async def built(coordinator: GroupCoordinator) -> None:
            self.what = coordinator

        await coordinator_process.serve(config, self.environment(self.own_random), lifecycle, built)


class TransactionCoordinatorProcess(Process):
    role = "transaction_coordinator"

    async def serve(self, lifecycle: Lifecycle) -> None:
        address = f"{self.host}:{RPC_PORT}"
        config = TransactionCoordinatorConfig(node_id=self.node_id, etcd=(), data_dir="/data", rpc_tcp=address)

        async def built(coordinator: TransactionCoordinator) -> None:
            self.what = coordinator

        await transaction_process.serve(config, self.environment(self.own_random), lifecycle, built)
