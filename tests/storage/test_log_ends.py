"""The ends of a log and of its epochs, which controllers and consumers ask for before they decide."""

from pathlib import Path

from libs.roles import CONTROLLER
from libs.rpc.contracts.storage import (
    END_OF_EPOCH,
    LOG_ENDS,
    EndOfEpoch,
    EndOfEpochReply,
    EpochEnd,
    EpochPartition,
    LogEnd,
    LogEnds,
    LogEndsReply,
)
from libs.rpc.messages.schema import unpack
from libs.wire.errors import ErrorCode
from tests.storage.cluster import WAIT_S, StorageCluster, batch, partition_of
from tests.storage.held_disk import HeldDisk
from tests.support.polling import until


async def log_end(cluster: StorageCluster, topic: bytes, *leader_epochs: int) -> LogEnd:
    reply = await cluster.caller(CONTROLLER).call(LOG_ENDS, LogEnds(((topic, 0),), leader_epochs), timeout_s=WAIT_S)
    return unpack(LogEndsReply, reply.body).partitions[0]


async def epoch_end(cluster: StorageCluster, topic: bytes, epoch: int, current: int = -1) -> EpochEnd:
    assert cluster.client is not None
    request = EndOfEpoch((EpochPartition(topic, 0, epoch, current),))
    return unpack(EndOfEpochReply, (await cluster.client.call(END_OF_EPOCH, request, timeout_s=WAIT_S)).body).partitions[0]


async def test_a_log_tells_its_ends_whoever_leads(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await cluster.topic("ends", epoch=3)
    await cluster.append(topic, batch(b"a", b"b"))
    assert await log_end(cluster, topic) == LogEnd(0, 3, 2, 2)
    disk.hold()
    await cluster.append(topic, batch(b"c"), acks=1)
    assert await log_end(cluster, topic) == LogEnd(0, 3, 3, 2)
    disk.release()
    await cluster.state(topic, epoch=4, leader=7, incarnation=1)
    await until(lambda: not partition_of(cluster, topic).leading)
    answer = await log_end(cluster, topic)
    assert (answer.error, answer.end_offset) == (0, 3)
    assert (await log_end(cluster, b"?" * 16)).error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_log_tells_its_end_only_once_no_record_may_follow_in_an_older_epoch(cluster: StorageCluster) -> None:
    """The metadata store was restored, and this leader does not know it yet: what it acknowledges after its answer was lost."""
    topic = await cluster.topic("surveyed", epoch=3)
    await cluster.append(topic, batch(b"a"))
    assert (await log_end(cluster, topic, 1003)).error == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert await log_end(cluster, topic, 3) == LogEnd(0, 3, 1, 1)
    await cluster.state(topic, epoch=1003, leader=-1, incarnation=0)
    await until(lambda: not partition_of(cluster, topic).leading)
    assert await log_end(cluster, topic, 1003) == LogEnd(0, 3, 1, 1)


async def test_a_log_end_names_an_epoch_without_records_too(cluster: StorageCluster) -> None:
    topic = await cluster.topic("elected", epoch=3)
    await cluster.append(topic, batch(b"a"))
    await cluster.state(topic, epoch=8)
    await cluster.leads(topic, epoch=8)
    assert (await log_end(cluster, topic)).latest_epoch == 8


async def test_a_log_that_was_emptied_tells_in_which_epoch_its_last_record_was_written(cluster: StorageCluster) -> None:
    """Else it would lose an election by logs to one that has fewer records."""
    topic = await cluster.topic("emptied", epoch=3)
    await cluster.append(topic, batch(b"a", b"b"))
    assert (await cluster.delete_records(topic, -1)).low_watermark == 2
    assert await log_end(cluster, topic) == LogEnd(0, 3, 2, 2)
    await cluster.state(topic, epoch=4, leader=7, incarnation=1)
    await until(lambda: not partition_of(cluster, topic).leading)
    assert (await log_end(cluster, topic)).latest_epoch == 3
    for clean in (True, False):
        await cluster.stop()
        if not clean:
            (Path(cluster.config.directories[0]) / ".kafka_cleanshutdown").unlink()
        await cluster.start()
        await until(lambda: (topic, 0) in cluster.node.partitions.by_key if cluster.node is not None else False)
        assert await log_end(cluster, topic) == LogEnd(0, 3, 2, 2)


async def test_leaders_tell_where_epochs_end(cluster: StorageCluster) -> None:
    topic = await cluster.topic("epochs", epoch=3)
    await cluster.append(topic, batch(b"a", b"b"))
    await cluster.state(topic, epoch=6)
    await cluster.leads(topic, epoch=6)
    await cluster.append(topic, batch(b"c"))
    assert await epoch_end(cluster, topic, 3) == EpochEnd(0, 3, 2)
    assert await epoch_end(cluster, topic, 5) == EpochEnd(0, 3, 2)
    assert await epoch_end(cluster, topic, 6) == EpochEnd(0, 6, 3)
    assert await epoch_end(cluster, topic, 7) == EpochEnd(0, -1, -1)
    assert (await epoch_end(cluster, topic, 3, current=5)).error == ErrorCode.FENCED_LEADER_EPOCH
    assert (await epoch_end(cluster, topic, 3, current=7)).error == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert (await epoch_end(cluster, b"?" * 16, 3)).error == ErrorCode.UNKNOWN_TOPIC_ID
