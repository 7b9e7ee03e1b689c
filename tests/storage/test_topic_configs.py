"""Each topic config that is marked as served does what it says, from the topic and from the broker config behind it."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from libs.clock import SystemClock
from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.configs.definitions import BROKER_CONFIGS, TOPIC_CONFIGS
from libs.cluster.configs.group_table import COORDINATOR_CONFIGS
from libs.cluster.records import ConfigOverrides
from libs.commitlog.partition_log.log import Log
from libs.commitlog.partition_log.segment_rolling import age_ms_max
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.batches import BatchHeader
from libs.wire.record_batches.records import Record, build_batch
from tests.storage.cluster import StorageCluster, appended, batch
from tests.storage.held_disk import HeldDisk
from tests.support.polling import until

MIB = 1 << 20
NOW = SystemClock().wall_ms()
NOT_SYNCED = {"durability": "replicated"}


async def configured(cluster: StorageCluster, **configs: Any) -> bytes:
    return await cluster.topic("t", **configs)


async def reconfigure(cluster: StorageCluster, kind: str, name: str, values: dict[str, str]) -> None:
    """Returns when the node goes by it."""
    assert cluster.node is not None
    before = [partition.config for partition in cluster.node.partitions.by_key.values()]
    await cluster.write(keys.config(kind, name), encode(ConfigOverrides(values)))
    node = cluster.node
    await until(lambda: [partition.config for partition in node.partitions.by_key.values()] != before)


def log_of(cluster: StorageCluster, topic: bytes) -> Log:
    assert cluster.node is not None
    return cluster.node.partitions.by_key[topic, 0].log


def bases(cluster: StorageCluster, topic: bytes) -> list[int]:
    return [segment.base_offset for segment in log_of(cluster, topic).segments]


def at(timestamp: int, size: int = 1) -> bytes:
    return batch(b"x" * size, timestamp=timestamp)


async def segment_bytes(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await configured(cluster, segment_bytes=str(MIB), max_message_bytes=str(2 * MIB))
    for _ in range(3):
        await cluster.append(topic, at(NOW, 400_000))
    assert bases(cluster, topic) == [0, 2]
    assert (await cluster.append(topic, at(NOW, MIB))).error == ErrorCode.RECORD_LIST_TOO_LARGE
    await reconfigure(cluster, "topic", "t", {"segment.bytes": str(2 * MIB), "max.message.bytes": str(2 * MIB)})
    assert (await cluster.append(topic, at(NOW, MIB))).error == 0
    assert bases(cluster, topic) == [0, 2]


async def segment_ms(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await configured(cluster, segment_ms="1000")
    for timestamp in (NOW - 5000, NOW - 4000, NOW - 3999, NOW - 9000):
        await cluster.append(topic, at(timestamp))
    assert bases(cluster, topic) == [0, 2]


async def segment_index_bytes(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await configured(cluster, segment_index_bytes="36", index_interval_bytes="0")
    for number in range(8):
        await cluster.append(topic, at(NOW + number))
    # Three time entries, of which sealing needs one: with the third batch's, no fourth fits.
    assert bases(cluster, topic) == [0, 3, 6]


async def segment_jitter_ms(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await configured(cluster, segment_ms="100000", segment_jitter_ms="90000")
    log = log_of(cluster, topic)
    age = age_ms_max(log.directory, 0, log.config)
    assert 10_000 < age < 100_000
    for timestamp in (NOW - 200_000, NOW - 200_000 + age, NOW - 200_000 + age + 1):
        await cluster.append(topic, at(timestamp))
    assert bases(cluster, topic) == [0, 2]


async def preallocate(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await configured(cluster, segment_bytes=str(2 * MIB), preallocate="true")
    await cluster.append(topic, at(NOW))
    files = Path(log_of(cluster, topic).directory)
    assert (files / f"{0:020d}.log").stat().st_blocks * 512 >= 2 * MIB
    assert (files / f"{0:020d}.log").stat().st_size == len(at(NOW))
    await reconfigure(cluster, "topic", "t", {"segment.ms": "1"})
    await cluster.append(topic, at(NOW + 2))
    assert (files / f"{0:020d}.log").stat().st_blocks * 512 < MIB
    assert (files / f"{1:020d}.log").stat().st_blocks * 512 < MIB


async def file_delete_delay_ms(cluster: StorageCluster, disk: HeldDisk) -> None:
    day = {"segment.ms": "1000", "file.delete.delay.ms": "86400000"}
    topic = await cluster.topic("t", **day)
    files = Path(log_of(cluster, topic).directory)
    for timestamp in (NOW - 9000, NOW - 7000, NOW - 1000):
        await cluster.append(topic, at(timestamp))
    assert (await cluster.delete_records(topic, 1)).error == 0
    kept = f"{0:020d}.log.deleted"
    await until(lambda: (files / kept).exists())
    await reconfigure(cluster, "topic", "t", {"segment.ms": "1000"})  # the broker's then, which is short here
    assert (await cluster.delete_records(topic, 2)).error == 0
    await until(lambda: not any((files / f"{1:020d}.log{suffix}").exists() for suffix in ("", ".deleted")))
    assert (files / kept).exists()  # its time was set when it was removed


async def index_interval_bytes(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await configured(cluster, index_interval_bytes="1000")
    for _ in range(21):
        await cluster.append(topic, at(NOW, 200))
    log = log_of(cluster, topic)
    size = log.size // 21
    assert 3 * size < 1000 < 4 * size
    index = log.active.offset_index
    assert [index.entry(slot) for slot in range(index.count)] == [(4 * n, 4 * n * size) for n in range(1, 6)]


async def retention_ms(cluster: StorageCluster, disk: HeldDisk) -> None:
    await retained(cluster, await configured(cluster, segment_ms="1000", retention_ms="6000"))


async def retention_bytes(cluster: StorageCluster, disk: HeldDisk) -> None:
    await retained(cluster, await configured(cluster, segment_ms="1000", retention_bytes=str(len(at(NOW)))))


async def retained(cluster: StorageCluster, topic: bytes) -> None:
    """More is in test_retention.py."""
    for age_ms in (9000, 7000, 1000):
        await cluster.append(topic, at(SystemClock().wall_ms() - age_ms))
    assert cluster.node is not None
    await cluster.node.opened.background.retention.check()
    assert bases(cluster, topic) == [2]


async def durability(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await configured(cluster)
    assert (await cluster.append(topic, at(NOW))).error == 0
    await reconfigure(cluster, "topic", "t", NOT_SYNCED)
    disk.hold()
    assert (await cluster.append(topic, at(NOW))).error == 0
    assert (await cluster.list_offset(topic, -1)).offset == 2
    await reconfigure(cluster, "topic", "t", {"durability": "synced"})
    waiting = cluster.send([(topic, 0, at(NOW))])
    assert (await cluster.list_offset(topic, -1)).offset == 2  # what was committed stays so
    assert not waiting.done()
    disk.release()
    assert appended(await waiting)[0].base_offset == 2


async def min_insync_replicas(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await configured(cluster, min_insync_replicas="2")
    assert (await cluster.append(topic, at(NOW))).error == 0  # a minimum above the replication factor means all of them
    assert cluster.node is not None
    partition = cluster.node.partitions.by_key[topic, 0]
    assert partition.replica.min_in_sync == 1
    partition.replica.min_in_sync = 2  # as with a factor of 2
    assert (await cluster.append(topic, at(NOW))).error == ErrorCode.NOT_ENOUGH_REPLICAS
    assert (await cluster.append(topic, at(NOW), acks=1)).error == 0


async def flush_messages(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await configured(cluster, durability="replicated", flush_messages="3")
    log = log_of(cluster, topic)
    for _ in range(3):
        assert log.durable_offset == 0
        await cluster.append(topic, at(NOW), acks=1)
    await until(lambda: log.durable_offset == 3)
    await reconfigure(cluster, "topic", "t", {**NOT_SYNCED, "flush.messages": "1"})
    await cluster.append(topic, at(NOW), acks=1)
    await until(lambda: log.durable_offset == 4)


async def flush_ms(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await configured(cluster, durability="replicated")
    await cluster.append(topic, at(NOW), acks=1)
    assert cluster.node is not None
    (only,) = cluster.node.opened.disks.all
    only.sync.flush_overdue()
    await asyncio.sleep(0)
    assert log_of(cluster, topic).durable_offset == 0
    await reconfigure(cluster, "topic", "t", {**NOT_SYNCED, "flush.ms": "0"})
    await until(lambda: log_of(cluster, topic).durable_offset == 1)


async def max_message_bytes(cluster: StorageCluster, disk: HeldDisk) -> None:
    sent = at(NOW, 1000)
    topic = await configured(cluster, max_message_bytes=str(len(sent) - 1))
    assert (await cluster.append(topic, sent)).error == ErrorCode.MESSAGE_TOO_LARGE
    await reconfigure(cluster, "topic", "t", {"max.message.bytes": str(len(sent))})
    assert (await cluster.append(topic, sent)).error == 0
    # The broker's, too, can be changed while it runs, for all or for one of them.
    await reconfigure(cluster, "topic", "t", {})
    await reconfigure(cluster, "broker", "", {"message.max.bytes": str(len(sent) - 1)})
    assert (await cluster.append(topic, sent)).error == ErrorCode.MESSAGE_TOO_LARGE
    await reconfigure(cluster, "broker", "1", {"message.max.bytes": str(len(sent))})
    assert (await cluster.append(topic, sent)).error == 0


async def message_timestamp_type(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await configured(cluster)
    assert (await cluster.append(topic, at(5))).log_append_time_ms == -1
    assert (await cluster.list_offset(topic, 0)).timestamp == 5
    await reconfigure(cluster, "topic", "t", {"message.timestamp.type": "LogAppendTime"})
    stamped = await cluster.append(topic, at(7))
    assert stamped.log_append_time_ms >= NOW
    assert (await cluster.list_offset(topic, 6)).timestamp == stamped.log_append_time_ms


async def message_timestamp_before_max_ms(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await configured(cluster, message_timestamp_before_max_ms="3600000")
    assert (await cluster.append(topic, at(SystemClock().wall_ms() - 3_700_000))).error == ErrorCode.INVALID_TIMESTAMP
    assert (await cluster.append(topic, at(SystemClock().wall_ms() - 3_000_000))).error == 0


async def message_timestamp_after_max_ms(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await configured(cluster)
    assert (await cluster.append(topic, at(SystemClock().wall_ms() + 4_000_000))).error == ErrorCode.INVALID_TIMESTAMP
    await reconfigure(cluster, "topic", "t", {"message.timestamp.after.max.ms": "8000000"})
    assert (await cluster.append(topic, at(SystemClock().wall_ms() + 4_000_000))).error == 0


def stored_codec(cluster: StorageCluster, topic: bytes) -> int:
    """The fields of the last batch in the log."""
    log = log_of(cluster, topic)
    found = log.read(log.log_end_offset - 1, MIB, log.log_end_offset, at_least_one_batch=True)
    assert found is not None
    with open(f"{log.directory}/{0:020d}.log", "rb") as file:
        file.seek(found.position)
        return BatchHeader.at(file.read(found.length)).codec


async def compression_type(cluster: StorageCluster, disk: HeldDisk) -> None:
    for name, codec in (("zstd", 4), ("lz4", 3), ("snappy", 2), ("gzip", 1), ("uncompressed", 0)):
        topic = await cluster.topic(name, compression_type=name)
        for sent in range(5):
            assert (await cluster.append(topic, bytes(build_batch([Record(b"k", b"v", NOW)], codec=sent)))).error == 0
            assert stored_codec(cluster, topic) == codec, (name, sent)


async def level_of(cluster: StorageCluster, codec: str, low: int, high: int) -> None:
    text = b"".join(b"key%d some text that repeats %d;" % (i % 97, i * 7919 % 1000) for i in range(3000))
    sizes = []
    for level in (low, high):
        name = f"level{level}"
        overrides = {"compression.type": codec, f"compression.{codec}.level": str(level)}
        topic = await cluster.topic(name, **overrides)
        assert (await cluster.append(topic, batch(text, timestamp=NOW))).error == 0
        sizes.append(log_of(cluster, topic).size)
    assert sizes[1] < 0.95 * sizes[0]


async def compression_gzip_level(cluster: StorageCluster, disk: HeldDisk) -> None:
    await level_of(cluster, "gzip", 1, 9)


async def compression_lz4_level(cluster: StorageCluster, disk: HeldDisk) -> None:
    await level_of(cluster, "lz4", 9, 12)


async def compression_zstd_level(cluster: StorageCluster, disk: HeldDisk) -> None:
    await level_of(cluster, "zstd", -50, 19)


async def record_validation(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await configured(cluster)
    sound = bytearray(batch(b"value", timestamp=NOW))
    sound[-1] = 0x7E  # the number of headers
    sound[17:21] = crc32c(sound[21:]).to_bytes(4, "big")
    assert (await cluster.append(topic, bytes(sound))).error == 0
    await reconfigure(cluster, "topic", "t", {"record.validation": "full"})
    assert (await cluster.append(topic, bytes(sound))).error == ErrorCode.INVALID_RECORD
    assert (await cluster.append(topic, at(NOW))).base_offset == 1


PROOFS: list[Callable[[StorageCluster, HeldDisk], Awaitable[None]]] = [
    *(segment_bytes, segment_ms, segment_jitter_ms, segment_index_bytes, index_interval_bytes, preallocate),
    *(retention_ms, retention_bytes, file_delete_delay_ms),
    *(durability, min_insync_replicas, flush_messages, flush_ms),
    *(max_message_bytes, message_timestamp_type, message_timestamp_before_max_ms, message_timestamp_after_max_ms),
    *(compression_type, compression_gzip_level, compression_lz4_level, compression_zstd_level, record_validation),
]


OF_THE_CLEANER = {
    *("cleanup.policy", "min.cleanable.dirty.ratio", "min.compaction.lag.ms", "max.compaction.lag.ms", "delete.retention.ms"),
}
"""Their proofs are in test_log_cleaner.py."""

OF_THE_CONTROLLER = {"unclean.leader.election.enable"}
"""Its proof is in tests/controller/test_elections.py."""

OF_REPLICATION = {"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"}
"""Their proofs are in test_pulls.py and test_following.py."""

OF_PRODUCERS = {"producer.ids.max"}
"""Its proof is in test_producer_expiry.py."""


@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: proof.__name__.replace("_", "."))
async def test_it_does_what_it_says(
    cluster: StorageCluster, disk: HeldDisk, proof: Callable[[StorageCluster, HeldDisk], Awaitable[None]]
) -> None:
    await proof(cluster, disk)


def test_every_config_that_is_served_has_its_proof() -> None:
    assert not [config.name for config in TOPIC_CONFIGS.values() if config.served_values]  # all values, or only the default
    served = {config.name for config in TOPIC_CONFIGS.values() if config.served and not config.hidden}
    proven = {proof.__name__.replace("_", ".") for proof in PROOFS}
    assert proven | OF_THE_CLEANER | OF_THE_CONTROLLER | OF_REPLICATION | OF_PRODUCERS == served


def test_every_broker_config_that_can_be_changed_is_a_topics_default_or_the_clusters() -> None:
    """Each changeable broker config has a user. Add that of a new config here."""
    defaults = {name for config in TOPIC_CONFIGS.values() for name in config.synonyms}
    changeable = {config.name for config in BROKER_CONFIGS.values() if not config.read_only and config.effect}
    of_coordinators = {config.name for config in COORDINATOR_CONFIGS}  # tests/group_coordinator/test_settings.py
    assert changeable - defaults - of_coordinators == {
        "num.partitions",  # controller: creating topics
        "default.replication.factor",  # likewise
        # controller: creating the topic of groups
        *("offsets.topic.num.partitions", "offsets.topic.replication.factor", "offsets.topic.segment.bytes"),
        # controller: creating the topic of transactions
        *("transaction.state.log.num.partitions", "transaction.state.log.replication.factor"),
        *("transaction.state.log.segment.bytes", "transaction.state.log.min.isr"),
        # transaction coordinators
        *("transactional.id.expiration.ms", "transaction.remove.expired.transaction.cleanup.interval.ms"),
        "auto.create.topics.enable",  # gateway: Metadata
        # gateway: connections
        *("max.connections", "max.connections.per.ip", "max.connections.per.ip.overrides", "max.connection.creation.rate"),
        "delete.topic.enable",  # controller: deleting topics
        # controller: leader balancing
        *("auto.leader.rebalance.enable", "leader.imbalance.check.interval.seconds", "leader.imbalance.per.broker.percentage"),
        # controller: balancing; the rate is the storage's
        *("self.balancing.mode", "self.balancing.moves.max", "self.balancing.bytes.per.second", "self.balancing.away.ms"),
        *("self.balancing.imbalance.percentage", "decommission"),
        "producer.id.expiration.ms",  # storage: upkeep
        *("replica.lag.time.max.ms", "replica.lag.max.messages"),  # storage: ISR changes
        # storage: pulls of followers
        *("replica.fetch.max.bytes", "replica.fetch.response.max.bytes", "replica.fetch.min.bytes", "replica.fetch.wait.max.ms"),
        *("leader.replication.throttled.rate", "follower.replication.throttled.rate"),  # storage: throttles
        "replica.alter.log.dirs.io.max.bytes.per.second",  # storage: moves between log directories
        # storage: cleaning
        *("log.cleaner.enable", "log.cleaner.threads", "log.cleaner.backoff.ms"),
        *("log.cleaner.dedupe.buffer.size", "log.cleaner.io.max.bytes.per.second"),
    }
