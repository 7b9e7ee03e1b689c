"""A topic that is deleted and made anew under a group that commits, while the watches of coordinators stand still (8).

One client does it all by one gateway, which knows the topic when it has answered the creation. So the coordinator must know it
before it decides the commit. What it acknowledges is there until the topic is deleted.
"""

import asyncio
from collections.abc import Sequence

from libs.wire.errors import ErrorCode
from tests.simulation.cluster import kafka_client, kafka_groups
from tests.simulation.cluster.administrator import delete_for_good, small_topic
from tests.simulation.cluster.clients import REQUEST_S, RETRY_S, Client, rest
from tests.simulation.cluster.coordinator_process import CoordinatorProcess
from tests.simulation.cluster.group_members import NOWHERE
from tests.simulation.cluster.kafka_client import Disconnected, Link, Partition
from tests.simulation.cluster.store import LATE_S_MAX

GROUP = "wanderers"
PAUSE_S = 12.0
HOLD_SHARE = 0.7
HOLDS_S = (0.1, 0.4, 1.5)
LOOKS_S = (0.0, 0.5, 2.0)
ATTEMPTS_MAX = 40
KNOWN_S_MAX = REQUEST_S / 2
"""An answer to a creation that took longer may come from a gateway that gave up waiting for its image."""
NOT_STORED = frozenset({*NOWHERE, int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)})
"""Answers to a commit that may be sent again."""


class _InDoubt(Exception):
    """Nobody knows what became of a request: it may come late, and the name is of no more use."""


class RecreatedTopic:
    """The client. It uses a name until a creation or deletion of it may come late."""

    def __init__(self, client: Client, coordinators: Sequence[CoordinatorProcess], factor: int) -> None:
        self._client, self._coordinators, self._factor = client, coordinators, factor
        self._world = client.world
        self._random = client.world.stream("made anew")
        self._names = 0
        self._offset = 0
        self.commits = 0
        self.stopping = False

    async def run(self) -> None:
        """Works until it is stopped, and leaves no topic behind."""
        while not self.stopping:
            self._names += 1
            name = f"anew-{self._names}"
            try:
                link = await self._client.any_gateway()
                await self._live(link, name)
                while not self.stopping:
                    await rest(self._random.expovariate(1 / PAUSE_S), lambda: self.stopping)
                    if self._random.random() < HOLD_SHARE:
                        self._hold(self._random.choice(HOLDS_S))
                    if await kafka_client.delete(link, name, REQUEST_S):
                        raise _InDoubt(name)
                    await self._live(link, name)
            except (Disconnected, _InDoubt):
                await asyncio.sleep(RETRY_S)
        await asyncio.sleep(LATE_S_MAX)
        for number in range(self._names):
            await delete_for_good(self._client, f"anew-{number + 1}", unknown=1)

    async def _live(self, link: Link, name: str) -> None:
        """One life of the topic, from its creation on. Raises Disconnected and _InDoubt."""
        begun = self._world.seconds
        answer = await kafka_client.create(link, [small_topic(name, 1, self._factor)], REQUEST_S)
        if answer[name][0] or self._world.seconds > begun + KNOWN_S_MAX:
            raise _InDoubt(name)
        partition = name, 0
        await self._commit(link, partition)
        for look_s in LOOKS_S:
            await asyncio.sleep(look_s)
            await self._look(link, partition)

    def _hold(self, seconds: float) -> None:
        """Lets the watches of all coordinators stand still for a while."""
        for process in self._coordinators:
            if process.store is not None:
                process.store.hold_watches(seconds)

    async def _commit(self, link: Link, partition: Partition) -> None:
        self._offset += 1
        for _ in range(ATTEMPTS_MAX):
            answer = await kafka_groups.ask(link, kafka_groups.commit(GROUP, -1, "", None, {partition: self._offset}), REQUEST_S)
            error = kafka_groups.commit_errors(answer)[partition]
            if not error:
                self.commits += 1
                return
            if error not in NOT_STORED:
                self._violation(partition, f"a commit is answered {ErrorCode(error).name}")
                break
            await asyncio.sleep(RETRY_S)
        raise _InDoubt(partition[0])

    async def _look(self, link: Link, partition: Partition) -> None:
        for _ in range(ATTEMPTS_MAX):
            answer = await kafka_groups.ask(link, kafka_groups.fetch(GROUP, [partition]), REQUEST_S)
            error, offsets = kafka_groups.fetched(answer)
            if not error:
                if offsets[partition] != self._offset:
                    self._violation(partition, f"{self._offset} was acknowledged, and {offsets[partition]} is committed")
                return
            await asyncio.sleep(RETRY_S)
        raise _InDoubt(partition[0])

    def _violation(self, partition: Partition, what: str) -> None:
        self._world.violation(f"8: group {GROUP}: {partition[0]}-{partition[1]}: {what}")
