"""Topics that come and go while the clients work, and configs that change."""

import asyncio
from collections.abc import Sequence

from libs.wire.errors import ErrorCode
from libs.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig
from tests.simulation.cluster import kafka_client
from tests.simulation.cluster.clients import REQUEST_S, RETRY_S, Client
from tests.simulation.cluster.kafka_client import Disconnected
from tests.simulation.cluster.store import LATE_S_MAX

PAUSE_S = 6.0
ATTEMPTS_MAX = 1_000
CREATED_OR_THERE = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


class Administrator:
    """Creates one topic after the other, and deletes it later. For a while it wants all replicas of a `lasting` one in sync.

    What was asked for may happen although nobody answered.
    """

    def __init__(self, client: Client, factor: int, lasting: Sequence[str]) -> None:
        self._client, self._factor, self._lasting = client, factor, lasting
        self._random = client.world.stream("administrator")
        self._created = 0
        self.stopping = False

    async def run(self) -> None:
        """Works until it is stopped, and leaves no topic behind."""
        while not self.stopping:
            await asyncio.sleep(self._random.expovariate(1 / PAUSE_S))
            self._created += 1
            name = f"brief-{self._created}"
            await self._create(name)
            await asyncio.sleep(self._random.uniform(0.0, 4.0))
            await delete_for_good(self._client, name)
            lasting = self._random.choice(self._lasting)
            await self._want_in_sync(lasting, self._factor, attempts=1)
            await asyncio.sleep(self._random.uniform(0.0, 4.0))
            await self._want_in_sync(lasting, 2, attempts=ATTEMPTS_MAX)
        await asyncio.sleep(LATE_S_MAX)
        for number in range(self._created):
            await delete_for_good(self._client, f"brief-{number + 1}", unknown=1)

    async def _want_in_sync(self, topic: str, least: int, *, attempts: int) -> None:
        for _ in range(attempts):
            try:
                if not await kafka_client.configure(
                    await self._client.any_gateway(), topic, "min.insync.replicas", str(least), REQUEST_S
                ):
                    return
            except Disconnected:
                pass
            await asyncio.sleep(RETRY_S)

    async def _create(self, name: str) -> None:
        topic = small_topic(name, self._random.choice((1, 3)), self._factor)
        for _ in range(3):
            try:
                answer = await kafka_client.create(await self._client.any_gateway(), [topic], REQUEST_S)
                if answer[name][0] in CREATED_OR_THERE:
                    return
            except Disconnected:
                pass
            await asyncio.sleep(RETRY_S)


def small_topic(name: str, partitions: int, factor: int) -> CreatableTopic:
    """A topic whose files take little room: an index is reserved whole."""
    return CreatableTopic(name, partitions, factor, configs=[CreatableTopicConfig("segment.index.bytes", "4096")])


async def delete_for_good(client: Client, name: str, *, unknown: int = 2) -> None:
    """Deletes a topic, as often as it takes: first it may not be seen yet, then it may come late."""
    gone = 0
    while gone < unknown:
        try:
            error = await kafka_client.delete(await client.any_gateway(), name, REQUEST_S)
            gone = gone + 1 if error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else 0
        except Disconnected:
            gone = 0
        if gone < unknown:
            await asyncio.sleep(5 * RETRY_S)
