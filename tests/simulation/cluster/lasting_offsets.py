"""Offsets that a client without a membership commits now and then: they last (8), however far a clock is set ahead meanwhile.

The group is empty, so its offsets expire a week after their commit. The owner-to-be of a shard has its clock set ahead by a month
just before it hears of the shard. Its process began before that, and goes by a time that follows slowly.
"""

import asyncio
from collections.abc import Callable, Sequence

from libs.wire.errors import ErrorCode
from tests.simulation.cluster import kafka_client, kafka_groups
from tests.simulation.cluster.clients import REQUEST_S, RETRY_S, Client
from tests.simulation.cluster.coordinator_process import CoordinatorProcess
from tests.simulation.cluster.group_members import NOWHERE
from tests.simulation.cluster.group_promises import Promises
from tests.simulation.cluster.kafka_client import Disconnected, Partition
from tests.simulation.cluster.world import World

GROUP = "archivers"
PAUSE_S = 2.5
COMMIT_SHARE = 0.2
CHECK_INTERVAL = "offsets.retention.check.interval.ms", "3000"
AHEAD_MS = 30 * 24 * 3_600_000
AHEAD_SHARE, AHEAD_S = 0.7, 3.0


class LastingOffsets:
    """The client. It commits and fetches, and tells `Promises`. `may_expire`: whether coordinators may look for old offsets."""

    def __init__(self, client: Client, partitions: Sequence[Partition], may_expire: Callable[[], bool]) -> None:
        self._client, self._partitions, self._may_expire = client, list(partitions), may_expire
        self._random = client.world.stream(GROUP)
        self._promises = Promises(client.world, GROUP, 0.0, "", classic=True)
        self._offset = 0
        self.stopping = False

    async def run(self) -> None:
        """Works until it is stopped."""
        is_set = False
        while not self.stopping:
            await asyncio.sleep(self._random.expovariate(1 / PAUSE_S))
            try:
                if not is_set and self._may_expire():
                    gateway = await self._client.any_gateway()
                    is_set = not await kafka_client.configure(gateway, "", *CHECK_INTERVAL, REQUEST_S)
                if not self._offset or self._random.random() < COMMIT_SHARE:
                    await self._commit()
                else:
                    await self._fetch()
            except Disconnected:
                await asyncio.sleep(RETRY_S)

    async def _commit(self) -> None:
        self._offset += 1
        offsets = dict.fromkeys(self._random.sample(self._partitions, 2), self._offset)
        commit = self._promises.commit_begins(-1, offsets)
        request = kafka_groups.commit(GROUP, -1, "", None, offsets)
        answer = await kafka_groups.ask(await self._client.any_gateway(), request, REQUEST_S)
        for partition, error in kafka_groups.commit_errors(answer).items():
            if not error:
                self._promises.accepted(commit, partition)
            elif error not in NOWHERE:
                self._client.world.violation(f"8: group {GROUP}: a commit is answered {ErrorCode(error).name}")

    async def _fetch(self) -> None:
        begun = self._promises.turn()
        request = kafka_groups.fetch(GROUP, self._partitions)
        error, offsets = kafka_groups.fetched(await kafka_groups.ask(await self._client.any_gateway(), request, REQUEST_S))
        if not error:
            self._promises.fetched(begun, offsets)


class ClocksSetAhead:
    """Sets the clock of a shard's next owner ahead for a moment, when the store names it; `armed` once the clients work."""

    def __init__(self, world: World, coordinators: Sequence[CoordinatorProcess]) -> None:
        self._world, self._coordinators = world, coordinators
        self._random = world.stream("clocks set ahead")
        self.armed = False

    def shard_given(self, owner: str) -> None:
        if not self.armed or self._random.random() >= AHEAD_SHARE:
            return
        for process in self._coordinators:
            if process.what is not None and str(process.what.owner) == owner and not process.clock.ahead_ms:
                process.clock.ahead_ms = AHEAD_MS
                self._world.log_event(f"{process.host}: the wall clock is set ahead by a month")
                self._world.loop.call_later(AHEAD_S, self._set_right, process)

    def _set_right(self, process: CoordinatorProcess) -> None:
        process.clock.ahead_ms = 0
