"""The description of a node's log directories."""

from libs.rpc.contracts.storage import DESCRIBE_LOG_DIRS, DescribeLogDirs, LogDir, LogDirsReply
from libs.rpc.messages.schema import unpack
from libs.wire.errors import ErrorCode
from tests.storage.cluster import WAIT_S, StorageCluster, batch, partition_of
from tests.support.polling import until


async def described(cluster: StorageCluster, *keys: tuple[bytes, int]) -> tuple[LogDir, ...]:
    assert cluster.client is not None
    reply = await cluster.client.call(DESCRIBE_LOG_DIRS, DescribeLogDirs(keys or None), timeout_s=WAIT_S)
    return unpack(LogDirsReply, reply.body).directories


async def test_sizes_and_space_are_described_for_all_logs_or_for_the_requested_ones(cluster: StorageCluster) -> None:
    first, second = await cluster.topic("first"), await cluster.topic("second")
    await cluster.append(first, batch(b"a", b"b"))
    (directory,) = await described(cluster)
    assert directory.error == 0
    assert directory.total_bytes >= directory.usable_bytes > 0
    size = partition_of(cluster, first).log.size
    assert size > 0
    assert sorted((log.topic, log.partition, log.size, log.lag) for log in directory.logs) == [
        ("first", 0, size, 0),
        ("second", 0, 0, 0),
    ]
    (directory,) = await described(cluster, (second, 0), (b"?" * 16, 0))
    assert [log.topic for log in directory.logs] == ["second"]


async def test_a_directory_that_failed_says_only_that(cluster: StorageCluster) -> None:
    topic = await cluster.topic("t")
    partition_of(cluster, topic).sync.fail(OSError("broken"))
    await until(lambda: partition_of(cluster, topic).offline)
    (directory,) = await described(cluster)
    assert (directory.error, directory.logs) == (ErrorCode.KAFKA_STORAGE_ERROR, ())
