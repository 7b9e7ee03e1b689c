"""Questions for the owner of a shard beyond this node's image, which may be late.

The store says it. Where the store is out of reach from here, the newest answer of the controllers does: they know this node's
claimants if they hear of the store, and are who they say by their hello. Nobody asks the claimant, which may lie.
"""

import asyncio
from typing import Final

from libs.rpc.contracts.ownership import SHARD_OWNER, NamedOwner, ShardOwner
from libs.rpc.messages.schema import pack
from libs.runtime.controllers import Controllers
from services.storage.core.produce.ownership import NO_OWNER, ImageOwner
from services.storage.partition.leader_checks import LeaderChecks
from services.storage.partition.partition import Key, Partition
from services.storage.produce.internal_topic_ownership import OnOwner

CONTROLLERS_S_MAX: Final = 1.0
"""With the store's second (`leader_checks.STORE_S_MAX`), less than the three seconds that a claimant waits."""


class OwnerQuestions:
    """The questions that are under way: one at a time for each partition, however many claims wait."""

    def __init__(self, checks: LeaderChecks, controllers: Controllers) -> None:
        self._checks = checks
        self._controllers = controllers
        self._waiting: dict[Key, list[OnOwner]] = {}
        self._tasks: dict[Key, asyncio.Task[None]] = {}

    def ask(self, partition: Partition, on_owner: OnOwner) -> None:
        """Calls `on_owner` later with the owner of an answer that was asked for from now on; with `NO_OWNER` if there is none."""
        self._waiting.setdefault(partition.key, []).append(on_owner)
        if partition.key not in self._tasks:
            self._tasks[partition.key] = asyncio.get_running_loop().create_task(
                self._answer(partition), name=f"who owns {partition}"
            )

    def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()

    async def _answer(self, partition: Partition) -> None:
        try:
            while waiting := self._waiting.pop(partition.key, None):
                owner = await self._owner(partition)
                for on_owner in waiting:
                    on_owner(owner)
        finally:
            del self._tasks[partition.key]

    async def _owner(self, partition: Partition) -> ImageOwner:
        state = await self._checks.stored_state(partition)
        if state is not None:
            return ImageOwner(state.owner, state.owner_epoch)
        question = pack(ShardOwner(*partition.key))
        answers = await self._controllers.ask_all(SHARD_OWNER, question, NamedOwner, timeout_s=CONTROLLERS_S_MAX)
        owners = [ImageOwner(answer.owner, answer.owner_epoch) for answer in answers.values()]
        return max(owners, key=lambda owner: owner.epoch, default=NO_OWNER)
