"""A topic that transactions write to, and a producer of each client generation that does so, over real processes."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from libs.coordinator.core.shard_hashing import shard_of
from libs.rpc.contracts.storage import APPEND, Append, Appended, AppendPartition
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.batches import iter_batches
from libs.wire.record_batches.markers import Marker, read_marker
from libs.wire.record_batches.records import Record, build_batch
from services.transaction_coordinator.core.transaction import Producer
from services.transaction_coordinator.gauges import open_transactions
from tests.storage.cluster import WAIT_S, StorageCluster, appended, fetched, partition_of
from tests.support.polling import until
from tests.transaction_coordinator.processes import Coordinator, TransactionalClient

SHARDS = 2
ID = "an id"
SHARD = shard_of(ID, SHARDS)
DATA = "data"

Begin = Callable[..., Awaitable[Coordinator]]
MakeClient = Callable[..., Awaitable["GenerationClient"]]


class Generation(NamedTuple):
    """What clients of one `transaction.version` send, and hear about a batch that belongs to no transaction."""

    name: str
    produce_version: int
    end_version: int
    not_in_transaction: ErrorCode

    @property
    def adds_partitions(self) -> bool:
        """Whether the client itself adds them (AddPartitionsToTxn)."""
        return self.produce_version < 12

    @property
    def second_sequence(self) -> int:
        """The sequence of the second batch, in the next transaction. Another epoch counts anew."""
        return 1 if self.end_version < 5 else 0


TV0 = Generation("TV0", 9, 3, ErrorCode.INVALID_TXN_STATE)
TV1 = Generation("TV1", 11, 4, ErrorCode.TRANSACTION_ABORTABLE)
TV2 = Generation("TV2", 12, 5, ErrorCode.TRANSACTION_ABORTABLE)
OLD_GENERATIONS = (TV0, TV1)
GENERATIONS = (TV0, TV1, TV2)


class GenerationClient(TransactionalClient):
    """A producer of one generation. It writes to the first partition of `topic`."""

    def __init__(self, node: StorageCluster, coordinator: Coordinator, topic: bytes, generation: Generation) -> None:
        super().__init__(coordinator, SHARD, ID, generation.end_version)
        self._node, self._coordinator, self._topic, self._generation = node, coordinator, topic, generation

    async def begin(self) -> list[int]:
        """Adds the partition, where such clients do that; the errors."""
        return await self.add(DATA, 0) if self._generation.adds_partitions else [0]

    async def send(self, sequence: int, producer: Producer | None = None) -> Appended:
        """`producer`: the one that made the batch, if it was made in an earlier transaction."""
        return await produce(
            self._node, self._topic, producer or self.producer, sequence, version=self._generation.produce_version
        )

    async def finish(self, *, commit: bool) -> None:
        """Ends the transaction, and waits until its markers are written."""
        assert await self.end(commit=commit) == 0
        await self.ended()

    async def ended(self) -> None:
        await until(lambda: not open_transactions(self._coordinator.running, 0))


async def take_all(node: StorageCluster, topic: bytes, coordinator: Coordinator, owner_epoch: int) -> None:
    for index in range(SHARDS):
        await node.give(topic, index, coordinator.owner, owner_epoch)
    await coordinator.serves(*range(SHARDS))


async def produce(node: StorageCluster, data: bytes, producer: Producer, sequence: int, version: int = 9) -> Appended:
    assert node.client is not None
    record = Record(None, b"x", 1_700_000_000_000)
    sent = bytes(
        build_batch(
            [record],
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
            transactional=True,
        )
    )
    request = Append(-1, 5000, (AppendPartition(data, 0, -1, len(sent)),), ID, -1, version)
    return appended(await node.client.call(APPEND, request, [sent], timeout_s=WAIT_S))[0]


async def markers(node: StorageCluster, data: bytes) -> list[tuple[int, Marker]]:
    """The (producer epoch, marker) of each control batch in the log."""
    found: list[tuple[int, Marker]] = []
    offset, end = 0, partition_of(node, data).replica.high_watermark
    while offset < end:  # a segment at a time
        reply = await node.fetching(data, offset, inline=True)
        assert not fetched(reply)[0].error
        for batch in iter_batches(memoryview(reply.payload)):
            offset = batch.header.last_offset + 1
            if batch.header.is_control and (marker := read_marker(batch.view)) is not None:
                found.append((batch.header.producer_epoch, marker))
    return found


def is_open(node: StorageCluster, data: bytes) -> bool:
    return bool(partition_of(node, data).log.producers.transactions.ongoing)


def is_stable(node: StorageCluster, data: bytes) -> bool:
    """Whether readers of committed records come to the end."""
    partition = partition_of(node, data)
    end = partition.log.log_end_offset
    return not is_open(node, data) and partition.log.last_stable_offset(partition.high_watermark) == end
