"""Markers of prepared transactions, where an owner gets its shard back while they are on their way."""

import asyncio
import time
from dataclasses import replace

from libs.clock import SystemClock
from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.image import ClusterImage
from libs.cluster.records import MetadataHistory, PartitionState, Replica, Topic
from libs.cluster.store import KeyValue, RangeResult
from libs.rpc.client.rpc_client import Hello
from libs.rpc.transport.socket_transport import SocketTransport
from libs.runtime.member_clients import MemberClients
from libs.runtime.storage_nodes import StorageNodes
from libs.telemetry.tracing.recorder import SpanRecorder, default_tracing
from services.transaction_coordinator.core.states import State
from services.transaction_coordinator.core.transaction import Producer, Transaction
from services.transaction_coordinator.markers.ending_traces import EndingTraces
from services.transaction_coordinator.markers.marker_writer import MISSING_WAY_OUT, MarkerWriter
from tests.support.polling import until

PREPARED = Transaction("t", Producer(1000, 0), state=State.PREPARE_COMMIT)


def writer_to(written: list[int]) -> MarkerWriter:
    """A writer that reaches nobody, and notes the owner epochs of transactions whose markers are written."""
    hello, transport = Hello("transaction_coordinator", 1, 1, "test", 1, "test-cluster"), SocketTransport()
    return MarkerWriter(
        StorageNodes(lambda: hello, "this-host", transport),
        MemberClients("group_coordinator", lambda: hello, "this-host", transport),
        owns=lambda shard, owner_epoch: True,
        on_written=lambda shard, owner_epoch, prepared: written.append(owner_epoch),
        traces=EndingTraces(
            SpanRecorder(default_tracing(), "transaction_coordinator-1-1", SystemClock(), time.monotonic), time.monotonic
        ),
    )


def image(*, restored_ms: int, topics: tuple[str, ...] = ()) -> ClusterImage:
    values = {keys.HISTORY: encode(MetadataHistory((), (), restored_ms))}
    for number, name in enumerate(topics):
        topic_id = bytes([number + 1]) * 16
        values[keys.topic(name)] = encode(Topic(name, topic_id.hex(), 1))
        values[keys.partition(topic_id, 0)] = encode(PartitionState((Replica(1, ""),), -1, -1, 0, 0, ()))
    return ClusterImage.from_range(RangeResult(tuple(KeyValue(key, value, 1, 1, 0) for key, value in values.items()), 1))


async def test_kafka_16352_the_end_of_former_markers_forgets_no_later_ones() -> None:
    """A transaction whose markers were begun anew was forgotten with the former ones. It stayed prepared for ever."""
    written: list[int] = []
    writer = writer_to(written)
    writer.write(0, 1, [PREPARED])
    writer.write(0, 2, [PREPARED])
    writer.forget(0, 1, PREPARED)
    assert len(writer) == 1
    await until(lambda: bool(written))
    assert written == [2], "by the owner that there is"
    writer.forget(0, 2, PREPARED)
    assert len(writer) == 0
    await writer.close()


RESTORED_MS = 10_000_000
OF_T = replace(PREPARED, partitions=frozenset([("t", 0)]), started_ms=RESTORED_MS - 1)


async def after_some_turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_topic_that_a_restored_store_lacks_does_not_count_as_deleted() -> None:
    """A rebuild from the disks brings it back with its open transaction, which then would never end."""
    written: list[int] = []
    writer = writer_to(written)
    writer.follow(image(restored_ms=RESTORED_MS))
    writer.write(0, 1, [OF_T])
    await after_some_turns()
    writer.follow(image(restored_ms=RESTORED_MS + 5))
    await after_some_turns()
    assert (written, len(writer)) == ([], 1)
    assert MISSING_WAY_OUT.endswith("or create a topic of that name"), "which is what happens now"
    writer.follow(image(restored_ms=RESTORED_MS + 5, topics=("t",)))
    await after_some_turns()
    assert (written, len(writer)) == ([], 1), "its leader is still to be elected"
    writer.follow(image(restored_ms=RESTORED_MS + 5))
    assert written == [1], "it was deleted now"
    await writer.close()


async def test_a_topic_that_the_metadata_knew_after_their_restore_counts_as_deleted_when_it_is_gone() -> None:
    written: list[int] = []
    writer = writer_to(written)
    writer.follow(image(restored_ms=RESTORED_MS))
    writer.write(0, 1, [replace(OF_T, started_ms=RESTORED_MS + 120_000)])
    assert written == [1]
    writer.follow(image(restored_ms=0))
    writer.write(0, 2, [replace(OF_T, transactional_id="u")])
    assert written == [1, 2], "these metadata were never restored"
    await writer.close()
