"""A consumer that reads one partition at a time from a broker on its gateway's kernel: in sequence, out of order, by timestamp.

So the gateway answers from files that the storage node passed to it: sequential fetches and lookups, while log layouts are fresh.
"""

import asyncio
from collections.abc import Sequence

from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.messages import list_offsets
from tests.history.model import Poll
from tests.simulation.cluster import kafka_client
from tests.simulation.cluster.clients import REQUEST_S, RETRIABLE, STAMP_MS, Client, key_of
from tests.simulation.cluster.kafka_client import LIST_OFFSETS_VERSION, Disconnected, Link, Partition
from tests.simulation.cluster.recorder import Recorder

PAUSE_S = 3.5
STEPS = 6
BYTES_MAX = (400, 1_500, 12_000)


class LocalReader:
    """`address`: where the gateway stands for the broker `node`."""

    def __init__(
        self, client: Client, recorder: Recorder, partitions: Sequence[Partition], node: int, address: tuple[str, int]
    ) -> None:
        self._client, self._recorder, self._partitions = client, recorder, list(partitions)
        self._node, self._address = node, address
        self._random = client.world.stream("local reader")
        self._values: dict[Partition, dict[int, int]] = {partition: {} for partition in partitions}
        """By offset, of all that it has read."""
        self.stopping = False

    async def run(self) -> None:
        """Works until it is stopped."""
        while not self.stopping:
            await asyncio.sleep(self._random.expovariate(1 / PAUSE_S))
            leaders = self._client.metadata.leaders
            led = [one for one in self._partitions if leaders.get(one, (-1,))[0] == self._node]
            try:
                if led:
                    await self._read(await self._client.link(self._address), self._random.choice(led))
                await self._client.refresh()
            except Disconnected:
                pass

    async def _read(self, link: Link, partition: Partition) -> None:
        """Raises Disconnected."""
        known, bytes_max = self._values[partition], self._random.choice(BYTES_MAX)
        end = max(known, default=0) + 1
        position = self._random.choice((0, self._random.randrange(end)))
        process = self._begin(partition)
        for _ in range(STEPS):
            position = await self._fetch(link, process, partition, position, bytes_max)
        for _ in range(STEPS):
            await self._fetch(link, self._begin(partition), partition, self._random.randrange(end), bytes_max)
        if known:
            for _ in range(STEPS // 2):
                await self._search(link, partition, STAMP_MS + known[self._random.choice(sorted(known))])

    def _begin(self, partition: Partition) -> int:
        """A consumer that begins somewhere in the partition."""
        process = self._recorder.process()
        self._recorder.end(self._recorder.begin(process, "assign", keys=(key_of(partition),)), "ok")
        return process

    async def _fetch(self, link: Link, process: int, partition: Partition, position: int, bytes_max: int) -> int:
        """Returns the next position. Raises Disconnected."""
        begun = self._recorder.begin(process, "poll")
        found: list[tuple[int, int]] = []
        try:
            (answer,) = await kafka_client.fetch(link, {partition: position}, REQUEST_S, max_wait_ms=100, max_bytes=bytes_max)
            if not answer.error:
                found = kafka_client.records_of(answer, position)
                if len(answer.records) and not found:
                    self._violation("1", partition, f"the {len(answer.records)} bytes for {position} begin with no batch of it")
            elif answer.error not in RETRIABLE:
                self._violation("4", partition, f"a consumer at {position} is told {ErrorCode(answer.error).name}")
        finally:
            self._recorder.end(begun, "ok", (Poll({key_of(partition): tuple(found)}),) if found else ())
        if found and found[-1][0] >= answer.high_watermark:
            self._violation("3", partition, f"{found[-1][0]} was read, and the high watermark is {answer.high_watermark}")
        self._values[partition].update(found)
        return found[-1][0] + 1 if found else position

    async def _search(self, link: Link, partition: Partition, timestamp: int) -> None:
        """Asks for the first record of that time or later, which is known to exist. Raises Disconnected."""
        asked = list_offsets.ListOffsetsPartition(partition[1], -1, timestamp)
        request = list_offsets.ListOffsetsRequest(-1, 0, [list_offsets.ListOffsetsTopic(partition[0], [asked])])
        answer = await kafka_client.call(
            *(link, ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, list_offsets.write_request, request),
            *(list_offsets.read_response, REQUEST_S),
        )
        found = answer.topics[0].partitions[0]
        if found.error_code:
            return
        known = self._values[partition]
        earlier = [offset for offset, value in known.items() if STAMP_MS + value >= timestamp]
        at = known.get(found.offset)
        if min(earlier) < found.offset or found.offset < 0 or (at is not None and STAMP_MS + at != found.timestamp):
            what = f"offset {found.offset} of {found.timestamp} is the first of {timestamp}, and {min(earlier)} was read"
            self._violation("1", partition, what)

    def _violation(self, number: str, partition: Partition, what: str) -> None:
        key = key_of(partition)
        self._client.world.violation(f"{number}: {key}: {what}", loss_of=key)
