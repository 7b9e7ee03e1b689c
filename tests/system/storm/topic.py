"""The topic of a storm: one writer, so that a record's value is its offset, and the settings that make groups notice soon."""

import asyncio
import random
import time

from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.messages.find_coordinator import FindCoordinatorRequest
from libs.wire.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from libs.wire.record_batches.records import Record, build_batch
from tests.gateway.kafka_client import produce_body, read_produced
from tests.system.storm.wire import Connection

PRODUCE_VERSION = 9
AT_ONCE = 20
"""Partitions that one request writes to."""
EVERY_S = 0.05
RETRIABLE_ERRORS = (ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS)
BROKER = 4


class TopicWriter:
    """Use `start` and `stop`."""

    def __init__(self, ports: tuple[int, ...], topic: str, partitions: int, chance: random.Random) -> None:
        self._connection = Connection(ports, chance, "writer")
        self._topic, self._chance = topic, chance
        self.ends = [0] * partitions
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    @property
    def written(self) -> int:
        return sum(self.ends)

    def start(self) -> None:
        self._task = asyncio.create_task(self._work())

    async def stop(self) -> None:
        """Stops once the batches in flight are answered. Raises the writer's error."""
        self._stopping = True
        if self._task is not None:
            await self._task
        self._connection.cut()

    async def write(self, indexes: list[int], each: int = 1) -> None:
        now_ms = int(time.time() * 1000)
        batches: list[tuple[int, bytes | None]] = []
        for index in indexes:
            values = range(self.ends[index], self.ends[index] + each)
            batches.append((index, bytes(build_batch([Record(None, b"%d" % value, now_ms) for value in values]))))
        body = produce_body(PRODUCE_VERSION, [(self._topic, batches)])
        found, _ = read_produced(await self._connection.ask_raw(ApiKey.PRODUCE, PRODUCE_VERSION, body), PRODUCE_VERSION)
        for one in found:
            assert one.error in (0, *RETRIABLE_ERRORS), one
            if not one.error:
                assert one.base_offset == self.ends[one.index], one
                self.ends[one.index] += each

    async def _work(self) -> None:
        while not self._stopping:
            await self.write(self._chance.sample(range(len(self.ends)), min(AT_ONCE, len(self.ends))))
            await asyncio.sleep(EVERY_S)


async def set_for_all(ports: tuple[int, ...], settings: dict[str, str], chance: random.Random) -> None:
    """Cluster-wide broker configs."""
    connection = Connection(ports, chance, "operator")
    configs = [AlterableConfig(name, 0, value) for name, value in settings.items()]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(BROKER, "", configs)])
    answer = await connection.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
    connection.cut()
    assert [found.error_code for found in answer.responses] == [0], answer


async def await_coordinator(ports: tuple[int, ...], group: str, chance: random.Random) -> None:
    """The first question for one makes the topic of all groups."""
    connection = Connection(ports, chance, "somebody")
    async with asyncio.timeout(60):
        while True:
            answer = await connection.ask(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=[group]))
            if not answer.coordinators[0].error_code:
                break
            await asyncio.sleep(EVERY_S)
    connection.cut()
