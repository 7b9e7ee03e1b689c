"""A wall clock that jumps, back by a day or ahead by a year: what is stamped, flushed, rolled and found.

What is deleted by age is in test_retention.py and test_producer_expiry.py, when segments end in tests/commitlog/test_rolling.py.
"""

import pytest

from libs.wire.errors import ErrorCode
from tests.storage.cluster import StorageCluster, batch, directory, partition_of
from tests.storage.retention import HOUR, check, now_batch
from tests.storage.set_clock import SetClock
from tests.support.polling import until

DAY, YEAR = 24 * HOUR, 365 * 24 * HOUR

either_way = pytest.mark.parametrize("jump", [-DAY, YEAR])


@either_way
async def test_log_append_time_is_what_the_clock_says_and_lookups_find_the_first_that_is_late_enough(
    cluster: StorageCluster, clock: SetClock, jump: int
) -> None:
    topic = await cluster.topic("stamped", message_timestamp_type="LogAppendTime")
    before = clock.wall_ms()
    assert (await cluster.append(topic, batch(b"a"))).log_append_time_ms == before
    clock.jumped_ms += jump
    after = clock.wall_ms()
    assert (await cluster.append(topic, batch(b"b"))).log_append_time_ms == after
    assert (await cluster.list_offset(topic, min(before, after))).offset == 0
    late = await cluster.list_offset(topic, max(before, after))
    assert (late.offset, late.timestamp) == ((0, before) if before > after else (1, after))
    newest = await cluster.list_offset(topic, -3)
    assert (newest.offset, newest.timestamp) == (late.offset, late.timestamp)
    assert (await cluster.fetch(topic, 0)).high_watermark == 2


@either_way
async def test_a_producer_whose_clock_did_not_jump_is_judged_by_the_leaders(
    cluster: StorageCluster, clock: SetClock, jump: int
) -> None:
    topic = await cluster.topic("judged")
    sent = now_batch(clock)
    clock.jumped_ms += jump
    error = (await cluster.append(topic, sent)).error
    # Its records lie a day ahead, which message.timestamp.after.max.ms forbids, or a year back, which is allowed by default.
    assert error == (ErrorCode.INVALID_TIMESTAMP if jump < 0 else 0)


@either_way
async def test_flush_ms_counts_time_that_passes(cluster: StorageCluster, clock: SetClock, jump: int) -> None:
    soon = await cluster.topic("soon", durability="replicated", flush_ms="10", message_timestamp_type="LogAppendTime")
    late = await cluster.topic("late", durability="replicated", flush_ms=str(HOUR), message_timestamp_type="LogAppendTime")
    # The round that an epoch is owed takes along whatever the log has when it begins, lazy or not.
    for name in ("soon", "late"):
        await until((directory(cluster, name) / "leader-epoch-checkpoint").exists)
    for topic in (soon, late):
        await cluster.append(topic, batch(b"x"), acks=1)
    clock.jumped_ms += jump
    for topic in (soon, late):
        await cluster.append(topic, batch(b"y"), acks=1)
    await until(lambda: partition_of(cluster, soon).log.durable_offset == 2)
    assert partition_of(cluster, late).log.durable_offset == 0


@either_way
async def test_a_restart_believes_the_clock_and_keeps_the_log(cluster: StorageCluster, clock: SetClock, jump: int) -> None:
    topic = await cluster.topic("restarted", internal_segment_bytes="300", retention_ms=str(HOUR))
    for _ in range(10):
        await cluster.append(topic, now_batch(clock))
    await cluster.stop()
    clock.jumped_ms += jump
    await cluster.start()
    await cluster.state(topic, epoch=1)
    await cluster.leads(topic, epoch=1)
    assert (await cluster.fetch(topic, 0)).high_watermark == 10
    await check(cluster)
    assert (await cluster.list_offset(topic, -2)).offset == (10 if jump > 0 else 0)
