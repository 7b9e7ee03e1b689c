"""A follower's work, beside a leader that the test plays."""

import asyncio
from dataclasses import replace

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.records import ConfigOverrides, Topic
from services.storage.replication.follower import pull_limits
from tests.storage.cluster import NODE_ID, StorageCluster, batch
from tests.storage.fake_leader import FakeLeader, LeaderLog
from tests.storage.following import caught_up, content, followed, log_of
from tests.support.polling import until


async def test_a_follower_copies_what_its_leader_has_byte_for_byte(cluster: StorageCluster, leader: FakeLeader) -> None:
    topic, log = await followed(cluster, leader, "copied")
    for number in range(20):
        log.append(b"%d" % number, b"more")
    leader.changed()
    await caught_up(cluster, topic, log)
    assert content(cluster, topic) == b"".join(log.batches)
    log.append(b"one more")
    leader.changed()
    await caught_up(cluster, topic, log)
    assert content(cluster, topic) == b"".join(log.batches)


async def test_durable_offsets_are_reported_without_waiting_for_a_pull(cluster: StorageCluster, leader: FakeLeader) -> None:
    topic, log = await followed(cluster, leader, "told")
    log.append(b"a", b"b", b"c")
    leader.changed()
    await until(lambda: leader.durable(topic) == 3)


async def test_a_pull_names_only_what_changed(cluster: StorageCluster, leader: FakeLeader) -> None:
    busy, log = await followed(cluster, leader, "busy")
    quiet, _ = await followed(cluster, leader, "quiet")
    await until(lambda: any(named.topic_id == quiet for pull in leader.pulls for named in pull.partitions))
    log.append(b"x")
    leader.changed()
    await caught_up(cluster, busy, log)
    await until(lambda: any(named.fetch_offset == 1 for pull in leader.pulls for named in pull.partitions))
    pull = next(pull for pull in leader.pulls if any(named.fetch_offset == 1 for named in pull.partitions))
    assert pull.sequence > 0
    assert [named.topic_id for named in pull.partitions] == [busy]


async def test_a_follower_cuts_what_its_leader_never_had_and_not_by_its_high_watermark(
    cluster: StorageCluster, leader: FakeLeader
) -> None:
    """KIP-101: all that both have stays, whatever was known to be committed."""
    topic, log = await followed(cluster, leader, "parted")
    for value in (b"a", b"b", b"c"):
        log.append(value, committed=False)
    leader.changed()
    await caught_up(cluster, topic, log)
    # Another leader, which had only the first two of epoch 0, and wrote its own third.
    other = LeaderLog(0)
    other.append(b"a", committed=False)
    other.append(b"b", committed=False)
    await leader.leads(topic, epoch=1, log=other)
    other.append(b"another c", committed=False)
    leader.changed()
    await until(lambda: content(cluster, topic) == b"".join(other.batches))
    assert log_of(cluster, topic).epochs.entries() == [(0, 0), (1, 2)]
    assert batch(b"c") not in content(cluster, topic)


async def test_a_follower_that_deleted_all_that_it_had_still_notices_that_the_logs_part(
    cluster: StorageCluster, leader: FakeLeader
) -> None:
    """The leader was elected at a loss: what it has from there on is of an epoch before that of the follower's last record."""
    topic, log = await followed(cluster, leader, "emptied", epoch=5)
    log.append(b"a", b"b")
    leader.changed()
    await caught_up(cluster, topic, log)
    log.start = 2
    leader.changed()
    await until(lambda: log_of(cluster, topic).log_start_offset == 2)
    other = LeaderLog(4)
    for value in (b"a", b"b", b"c"):
        other.append(value, committed=False)
    other.elected(6)
    await leader.leads(topic, epoch=6, log=other)
    leader.changed()
    await until(lambda: content(cluster, topic) == b"".join(other.batches))
    assert log_of(cluster, topic).log_start_offset == 0


async def test_a_throttled_replica_catches_up_at_its_rate_and_then_keeps_up(cluster: StorageCluster, leader: FakeLeader) -> None:
    rate = {"follower.replication.throttled.rate": "20000", "log.segment.delete.delay.ms": "50"}
    await cluster.write(keys.config("broker", "1"), encode(ConfigOverrides(rate)))
    throttled = encode(ConfigOverrides({"follower.replication.throttled.replicas": "0:1"}))
    await cluster.write(keys.config("topic", "throttled"), throttled)
    log = LeaderLog(0)
    log.bytes_max = 5_000
    for _ in range(10):
        log.append(b"x" * 4000)
    topic = b"throttled".ljust(16, b"\0")
    began = asyncio.get_running_loop().time()
    await leader.leads(topic, epoch=0, log=log)
    await followed(cluster, leader, "throttled")
    await caught_up(cluster, topic, log)
    # Two seconds' worth, of which one was saved up.
    assert asyncio.get_running_loop().time() - began > 0.8
    await cluster.write(keys.config("broker", "1"), encode(ConfigOverrides(rate | {"follower.replication.throttled.rate": "1"})))
    for _ in range(2):
        log.append(b"x" * 4000)
        leader.changed()
        await caught_up(cluster, topic, log)


async def test_replicas_that_balancing_moves_are_copied_at_the_rate_of_moves(cluster: StorageCluster, leader: FakeLeader) -> None:
    async def may_move(bytes_per_second: int) -> None:
        rate = {"self.balancing.bytes.per.second": str(bytes_per_second)}
        await cluster.write(keys.config("broker", ""), encode(ConfigOverrides(rate)))

    log = LeaderLog(0)
    log.bytes_max = 5_000
    for _ in range(10):
        log.append(b"x" * 4000)

    async def took(name: str, *, paced: bool) -> float:
        topic = name.encode().ljust(16, b"\0")
        await leader.leads(topic, epoch=0, log=log, adding=(NODE_ID,), paced=paced)
        await cluster.write(keys.topic(name), encode(Topic(name, topic.hex(), 1)))
        began = asyncio.get_running_loop().time()
        await until(lambda: cluster.node is not None and (topic, 0) in cluster.node.partitions.by_key)
        await caught_up(cluster, topic, log)
        return asyncio.get_running_loop().time() - began

    await may_move(1)
    await took("by-an-operator", paced=False)
    await may_move(20_000)
    assert await took("by-the-cluster", paced=True) > 0.8  # two seconds' worth, of which one was saved up


async def test_the_work_of_a_follower_is_counted(cluster: StorageCluster, leader: FakeLeader) -> None:
    topic, log = await followed(cluster, leader, "counted")
    log.append(b"a")
    leader.changed()
    await caught_up(cluster, topic, log)
    assert cluster.node is not None
    rendered = cluster.node.environment.metrics.render().decode()
    assert f"kafka_server_brokertopicmetrics_replicationbytesin_total {float(len(log.batches[0]))}" in rendered
    assert 'kafka_server_fetcherlagmetrics_consumerlag{leader="2"} 0.0' in rendered
    assert "kafka_server_replicafetchermanager_maxlag 0.0" in rendered
    assert "penstock_storage_followed_partitions 1.0" in rendered
    shown = {"counted-0": {"state": "fetching", "leader_epoch": 0, "at": 1, "lag": 0}}
    assert cluster.node.debug()["following"]() == {2: shown}


async def test_a_partition_that_comes_waits_neither_for_the_pull_under_way_nor_for_another_session(
    cluster: StorageCluster, leader: FakeLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull_limits, "WAIT_MS_MAX", 3_600_000)
    waits = {"replica.fetch.wait.max.ms": "3600000", "replica.lag.time.max.ms": "3600000"}
    await cluster.write(keys.config("broker", ""), encode(ConfigOverrides(waits)))
    await followed(cluster, leader, "first")
    await until(lambda: leader.pulls)
    session = leader.pulls[-1].session
    await until(lambda: leader.pulls[-1].max_wait_ms > 60_000)  # which is parked now
    second, log = await followed(cluster, leader, "second")
    log.append(b"a")
    leader.changed()
    await caught_up(cluster, second, log)
    assert leader.pulls[-1].session == session


@pytest.mark.parametrize(
    ("name", "value", "field", "asked"),
    [
        ("replica.fetch.max.bytes", 12_345, "partition_max_bytes", 12_345),
        ("replica.fetch.response.max.bytes", 23_456, "max_bytes", 23_456),
        ("replica.fetch.response.max.bytes", (1 << 31) - 1, "max_bytes", 64 << 20),
        ("replica.fetch.min.bytes", 7, "min_bytes", 7),
        ("replica.fetch.min.bytes", -7, "min_bytes", 1),
        ("replica.fetch.wait.max.ms", 321, "max_wait_ms", 321),
        ("replica.fetch.wait.max.ms", -1, "max_wait_ms", 1),
        ("replica.fetch.wait.max.ms", (1 << 31) - 1, "max_wait_ms", 10_000),
        ("replica.lag.time.max.ms", 300, "max_wait_ms", 150),
    ],
)
async def test_a_pull_keeps_the_configured_limits(
    cluster: StorageCluster, leader: FakeLeader, name: str, value: int, field: str, asked: int
) -> None:
    await followed(cluster, leader, "limited")
    await until(lambda: leader.pulls)
    defaults = {"partition_max_bytes": 1 << 20, "max_bytes": 10 << 20, "min_bytes": 1, "max_wait_ms": 500}
    assert getattr(leader.pulls[-1], field) == defaults[field]
    await cluster.write(keys.config("broker", ""), encode(ConfigOverrides({name: str(value)})))
    await until(lambda: getattr(leader.pulls[-1], field) == asked)


async def test_a_followers_limits_can_be_given_at_its_start(cluster: StorageCluster, leader: FakeLeader) -> None:
    await cluster.stop()
    cluster.config = replace(cluster.config, broker_configs=("replica.fetch.max.bytes=4096",))
    await cluster.start()
    await followed(cluster, leader, "limited")
    await until(lambda: leader.pulls)
    assert leader.pulls[-1].partition_max_bytes == 4096
