"""A topic that the node follows from a fake leader, and how far it has come."""

from pathlib import Path

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.records import Topic
from libs.commitlog.partition_log.log import Log
from tests.storage.cluster import StorageCluster
from tests.storage.fake_leader import FakeLeader, LeaderLog
from tests.support.polling import until


def log_with(*epochs: tuple[int, int]) -> LeaderLog:
    """(epoch, batches written in it) each; batches of an epoch are the same in every log made by this."""
    log = LeaderLog(epochs[0][0])
    for epoch, count in epochs:
        log.epoch = epoch
        if not log.epochs or log.epochs[-1][0] != epoch:
            log.epochs.append((epoch, log.end))
        for number in range(count):
            log.append(b"%d in epoch %d" % (number, epoch), committed=False)
    return log


async def followed(
    cluster: StorageCluster, leader: FakeLeader, name: str, *, epoch: int = 0, **configs: str
) -> tuple[bytes, LeaderLog]:
    """A topic of one partition that the fake leader leads, once the node has it."""
    topic_id = name.encode().ljust(16, b"\0")
    log = await leader.leads(topic_id, epoch=epoch)
    await cluster.write(keys.topic(name), encode(Topic(name, topic_id.hex(), 1)))
    await until(lambda: cluster.node is not None and (topic_id, 0) in cluster.node.partitions.by_key)
    return topic_id, log


async def caught_up(cluster: StorageCluster, topic: bytes, log: LeaderLog) -> None:
    def held() -> bool:
        assert cluster.node is not None
        mine = cluster.node.partitions.by_key.get((topic, 0))
        return mine is not None and (mine.log_end_offset, mine.high_watermark) == (log.end, min(log.high_watermark, log.end))

    await until(held)


def log_of(cluster: StorageCluster, topic: bytes) -> Log:
    """Also while it is being cut, and answered by nobody."""
    assert cluster.node is not None
    return cluster.node.opened.open_logs.get((topic, 0))[0].log


def content(cluster: StorageCluster, topic: bytes) -> bytes:
    """All batches of the node's log, byte for byte; nothing while it is being cut."""
    try:
        return b"".join(Path(segment.file.path).read_bytes()[: segment.size] for segment in log_of(cluster, topic).segments)
    except FileNotFoundError:
        return b""
