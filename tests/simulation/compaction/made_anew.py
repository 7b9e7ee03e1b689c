"""A compacted topic that is deleted and made anew under the same name, whose replicas move, and whose nodes restart just then."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import cycle
from random import Random

from libs.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig
from tests.simulation.cluster import kafka_admin, kafka_client
from tests.simulation.cluster.clients import REQUEST_S, RETRY_S, Client, Values, rest
from tests.simulation.cluster.kafka_client import Disconnected, Partition
from tests.simulation.cluster.recorder import Recorder
from tests.simulation.cluster.world import World
from tests.simulation.compaction.topic_life import KeysProducer, TableReader, TopicLife

SHORT_S, LONG_S = (4.0, 8.0), (18.0, 26.0)
"""Lives. The long ones last until tombstones have gone."""
DELETE_RETENTION_MS = 8_000
CONFIGS = (
    ("cleanup.policy", "compact"),
    ("delete.retention.ms", str(DELETE_RETENTION_MS)),
    ("min.cleanable.dirty.ratio", "0.01"),
    ("segment.ms", "1500"),
    ("segment.index.bytes", "4096"),
)
RESTART_SHARE, RESTART_S_MAX = 0.7, 2.0
MOVE_PAUSE_S, AWAY_S_MAX, ELECTION_SHARE = 7.0, 3.0, 0.5

Lives = dict[bytes, TopicLife]
"""By topic id."""


class _InDoubt(Exception):
    """Nobody knows what became of a request: it may come late, and the name is of no more use."""


class MadeAnew:
    """The owner of a name. It takes another one when a creation or deletion of the former may come late.

    `restart` is called soon after some creations. `last`: the reader of the life that is left in the end.
    """

    def __init__(
        self,
        world: World,
        number: int,
        bootstrap: Sequence[tuple[str, int]],
        recorder: Recorder,
        values: Values,
        lives: Lives,
        nodes: Sequence[int],
        restart: Callable[[], Awaitable[None]],
    ) -> None:
        self.world, self.host = world, f"client-{number}"
        self._number, self._bootstrap, self._recorder, self._values = number, bootstrap, recorder, values
        self._lives, self._nodes, self._restart = lives, list(nodes), restart
        self._random: Random = world.stream(f"{self.host} makes topics anew")
        self._names = self.tables = 0
        self.last: TableReader | None = None
        self.stopping = False

    async def run(self) -> None:
        """Works until it is stopped. Its last topic stays."""
        while not self.stopping:
            self._names += 1
            name = f"table-{self._number}-{self._names}"
            client = Client(self.world, name, self._bootstrap, [name], host=self.host)
            lives_s = cycle((LONG_S, SHORT_S))
            try:
                await self._live(client, name, SHORT_S)
                while not self.stopping:
                    self.last = None
                    if await kafka_client.delete(await client.any_gateway(), name, REQUEST_S):
                        raise _InDoubt
                    await self._live(client, name, next(lives_s))
                    self.world.sometimes("a topic was made anew")
            except (Disconnected, _InDoubt):
                await asyncio.sleep(RETRY_S)

    async def _live(self, client: Client, name: str, lasts_s: tuple[float, float]) -> None:
        """One life of the topic, but for its deletion. Raises Disconnected, _InDoubt."""
        topic = CreatableTopic(name, 1, len(self._nodes), configs=[CreatableTopicConfig(*config) for config in CONFIGS])
        error, topic_id = await kafka_client.create_one(await client.any_gateway(), topic, REQUEST_S)
        if error:
            raise _InDoubt
        life = self._lives[topic_id] = TopicLife(self.world, (name, 0), topic_id, len(self._lives) + 1)
        self.world.log_event(f"{name} is made, with id {topic_id.hex()}")
        producer, reader = KeysProducer(client, self._recorder, life, self._values), TableReader(client, life)
        moving = asyncio.create_task(self._move(client, life.partition))
        working = [asyncio.create_task(producer.run()), asyncio.create_task(reader.run())]
        if self._random.random() < RESTART_SHARE:
            await asyncio.sleep(self._random.uniform(0.0, RESTART_S_MAX))
            working.append(asyncio.ensure_future(self._restart()))
        await rest(self._random.uniform(*lasts_s), lambda: self.stopping)
        moving.cancel()
        producer.stopping = reader.stopping = True
        await asyncio.gather(*working)
        self.tables += reader.tables
        self.last = reader

    async def _move(self, client: Client, partition: Partition) -> None:
        """Moves a replica away and back until it is cancelled."""
        random, nodes = self._random, self._nodes
        while True:
            await asyncio.sleep(random.expovariate(1 / MOVE_PAUSE_S))
            try:
                await self._reassign(client, partition, random.sample(nodes, len(nodes) - 1))
                await asyncio.sleep(random.uniform(0.0, AWAY_S_MAX))
                await self._reassign(client, partition, random.sample(nodes, len(nodes)))
                if random.random() < ELECTION_SHARE:
                    await asyncio.sleep(random.uniform(0.0, AWAY_S_MAX))
                    link = await client.any_gateway()
                    await kafka_admin.elect(link, kafka_admin.PREFERRED, [partition], REQUEST_S)
            except Disconnected:
                await asyncio.sleep(RETRY_S)

    async def _reassign(self, client: Client, partition: Partition, replicas: list[int]) -> None:
        """Raises Disconnected."""
        answer = await kafka_admin.reassign(await client.any_gateway(), {partition: replicas}, REQUEST_S)
        self.world.log_event(f"{partition[0]} is to have {replicas}: {answer.get(partition)}")
