"""An operator who moves leaders and replicas while the clients work, and changes their mind."""

import asyncio
from collections.abc import Callable, Sequence

from libs.cluster.records import PartitionState
from libs.wire.errors import ErrorCode
from tests.simulation.cluster import kafka_admin
from tests.simulation.cluster.clients import REQUEST_S, RETRY_S, Client, key_of
from tests.simulation.cluster.invariants import aims_at, led_by_preferred
from tests.simulation.cluster.kafka_client import Disconnected, Partition
from tests.simulation.cluster.store import LATE_S_MAX

PAUSE_S = 3.0
ATTEMPTS_MAX = 1_000

Replicas = tuple[int, ...]
Was = Callable[[Partition, float, Callable[[PartitionState], bool]], bool]
"""Whether a state of the partition since that time was such."""


class Reassigner:
    """An operator. Its requests may take effect late, and without an answer; at the end every partition has all nodes again."""

    def __init__(self, client: Client, partitions: Sequence[Partition], nodes: Replicas, was: Was) -> None:
        self._client, self._partitions, self._nodes, self._was = client, list(partitions), nodes, was
        self._random = client.world.stream("mover")
        self.stopping = False

    async def run(self) -> None:
        """Reassigns until it is stopped."""
        while not self.stopping:
            await asyncio.sleep(self._random.expovariate(1 / PAUSE_S))
            if self._random.random() < 0.4:
                await self._elect(self._random.sample(self._partitions, self._random.choice((1, 3))))
                continue
            partition = self._random.choice(self._partitions)
            await self._reassign(partition, self._some(2))
            await asyncio.sleep(self._random.choice((0.0, 0.02, 0.3, 2.0)))
            await self._reassign(partition, self._some(3))
            if self._random.random() < 0.3:
                await asyncio.sleep(self._random.choice((0.0, 0.02, 0.3)))
                await self._reassign(partition, None)
        await asyncio.sleep(LATE_S_MAX)
        for partition in self._partitions:
            for _ in range(ATTEMPTS_MAX):
                if await self._reassign(partition, self._nodes):
                    break
                await asyncio.sleep(5 * RETRY_S)

    def _some(self, count: int) -> Replicas:
        return tuple(self._random.sample(self._nodes, count))

    async def _elect(self, partitions: Sequence[Partition]) -> None:
        world, begun = self._client.world, self._client.world.seconds
        try:
            answer = await kafka_admin.elect(await self._client.any_gateway(), kafka_admin.PREFERRED, partitions, REQUEST_S)
        except Disconnected:
            return
        said = {key_of(partition): ErrorCode(error).name for partition, error in answer.items()}
        world.log_event(f"preferred leaders are asked for: {said}")
        for partition, error in answer.items():
            if error in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED) and not self._was(partition, begun, led_by_preferred):
                world.violation(f"an election of {key_of(partition)} is answered, and its preferred replica does not lead")

    async def _reassign(self, partition: Partition, replicas: Replicas | None) -> bool:
        """Whether it is done or under way."""
        world, begun = self._client.world, self._client.world.seconds
        try:
            answer = await kafka_admin.reassign(await self._client.any_gateway(), {partition: replicas}, REQUEST_S)
        except Disconnected:
            return False
        error = answer.get(partition, int(ErrorCode.REQUEST_TIMED_OUT))  # the whole request was not carried out
        world.log_event(f"{key_of(partition)} is to have {replicas or 'what it had'}: {ErrorCode(error).name}")
        if not error and replicas is not None and not self._was(partition, begun, lambda state: aims_at(state, replicas)):
            world.violation(f"a reassignment of {key_of(partition)} to {replicas} is answered, and nobody wrote it")
        return not error
