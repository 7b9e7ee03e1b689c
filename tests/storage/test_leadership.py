"""Leadership over time: restarts, resignations, deletions."""

import asyncio
import logging
from pathlib import Path

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.records import ConfigOverrides, Topic
from libs.commitlog.model.errors import DirectoryLocked
from libs.wire.errors import ErrorCode
from tests.storage.cluster import NODE_ID, WAIT_S, StorageCluster, appended, batch, fetched, partition_of
from tests.storage.held_disk import HeldDisk
from tests.support.polling import until


async def test_a_restarted_node_does_not_lead_until_the_state_names_it(cluster: StorageCluster) -> None:
    topic = await cluster.topic("restarted", epoch=2)
    await cluster.append(topic, batch(b"a", b"b"))
    await cluster.stop()
    await cluster.start()
    # The state still names the former incarnation.
    assert (await cluster.append(topic, batch(b"c"), timeout_ms=20)).error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (await cluster.fetch(topic, 0)).error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    await cluster.state(topic, epoch=3)
    await cluster.leads(topic, epoch=3)
    part = await cluster.fetch(topic, 0)
    assert (part.error, part.high_watermark) == (0, 2)
    assert (await cluster.append(topic, batch(b"c"))).base_offset == 2
    # The old epoch ended where the new one began.
    diverging = await cluster.fetch(topic, 3, last_fetched_epoch=2)
    assert (diverging.diverging_epoch, diverging.diverging_end_offset) == (2, 2)


@pytest.mark.parametrize("leader", [NODE_ID, 2], ids=["as leader", "as follower"])
async def test_a_node_takes_no_role_in_an_epoch_below_its_logs(
    cluster: StorageCluster, leader: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The metadata store was restored from a backup. The node cut its log to an older leader's, or gave an epoch out twice."""
    topic = await cluster.topic("restored", epoch=5)
    await cluster.append(topic, batch(b"a"))
    await cluster.stop()
    await cluster.state(topic, epoch=3, leader=leader, incarnation=cluster.incarnation + 1)
    with caplog.at_level(logging.ERROR):
        await cluster.start()
    assert "metadata is older than the log" in caplog.text
    partition = partition_of(cluster, topic)
    assert (partition.leading, partition.log_end_offset, partition.log.epochs.latest) == (False, 1, 5)
    await cluster.state(topic, epoch=6)
    await cluster.leads(topic, epoch=6)
    assert partition.log_end_offset == 1


async def test_a_node_does_not_begin_to_lead_in_its_logs_own_epoch(
    cluster: StorageCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Another node led in it, before the store went back. Its followers would be cut to this log's end."""
    topic = await cluster.topic("restored", epoch=5)
    await cluster.append(topic, batch(b"a"))
    await cluster.stop()
    await cluster.state(topic, epoch=5, incarnation=cluster.incarnation + 1)
    with caplog.at_level(logging.ERROR):
        await cluster.start()
    assert "metadata is older than the log" in caplog.text
    assert not partition_of(cluster, topic).leading
    await cluster.state(topic, epoch=6)
    await cluster.leads(topic, epoch=6)


async def test_an_idempotent_producer_goes_on_after_a_restart(cluster: StorageCluster) -> None:
    topic = await cluster.topic("producer")
    sent = batch(b"a", b"b", producer=(9, 1, 0))
    await cluster.append(topic, sent)
    await cluster.stop()
    await cluster.start()
    await cluster.state(topic, epoch=1)
    await cluster.leads(topic, epoch=1)
    assert (await cluster.append(topic, sent)).base_offset == 0
    assert (await cluster.append(topic, batch(b"c", producer=(9, 1, 2)))).base_offset == 2


async def test_waiting_appends_hear_of_the_new_leader(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await cluster.topic("deposed", epoch=1)
    disk.hold()
    waiting = cluster.send([(topic, 0, batch(b"x"))])
    parked = cluster.fetching(topic, 0, max_wait_ms=8000)
    await cluster.fetch(topic, 0)
    await cluster.state(topic, epoch=2, leader=7, incarnation=1)
    answer = appended(await waiting)[0]
    assert (answer.error, answer.leader, answer.leader_epoch) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 7, 2)
    gone = fetched(await parked)[0]
    assert (gone.error, gone.leader, gone.leader_epoch) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 7, 2)
    disk.release()


async def test_a_deleted_topic_answers_its_waiters_and_leaves_the_disk(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await cluster.topic("doomed")
    parked = cluster.fetching(topic, 0, max_wait_ms=8000)
    await cluster.fetch(topic, 0)
    directory = Path(cluster.config.directories[0])
    assert (directory / "doomed-0").exists()
    await cluster.write(keys.topic("doomed"), None)
    await cluster.write(keys.partition(topic, 0), None)
    assert fetched(await parked)[0].error == ErrorCode.UNKNOWN_TOPIC_ID
    assert (await cluster.append(topic, batch(b"x"))).error == ErrorCode.UNKNOWN_TOPIC_ID
    await until(lambda: not any(path.name.startswith("doomed") for path in directory.iterdir()))


async def test_a_topic_created_again_shares_nothing_with_the_old_one(cluster: StorageCluster) -> None:
    old = await cluster.topic("again")
    await cluster.append(old, batch(b"old"))
    await cluster.write(keys.topic("again"), None)
    new = await cluster.topic("again", epoch=0)
    assert (await cluster.append(old, batch(b"x"))).error == ErrorCode.UNKNOWN_TOPIC_ID
    assert (await cluster.append(new, batch(b"y"))).base_offset == 0


async def test_a_topic_created_again_while_the_node_was_down_starts_empty(cluster: StorageCluster) -> None:
    old = await cluster.topic("stray")
    await cluster.append(old, batch(b"old"))
    await cluster.stop()
    await cluster.write(keys.topic("stray"), None)
    await cluster.start()
    new = await cluster.topic("stray")
    assert (await cluster.append(new, batch(b"new"))).base_offset == 0


async def test_partitions_that_are_added_are_led_too(cluster: StorageCluster) -> None:
    topic = await cluster.topic("growing")
    await cluster.state(topic, 1, epoch=0)
    assert (await cluster.append(topic, batch(b"x"), index=1)).error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await cluster.write(keys.topic("growing"), encode(Topic("growing", topic.hex(), 2)))
    await cluster.leads(topic, 1)
    assert (await cluster.append(topic, batch(b"x"), index=1)).error == 0


async def test_changed_configs_hold_from_the_next_batch_on(cluster: StorageCluster) -> None:
    topic = await cluster.topic("tuned")
    big = batch(b"x" * 2000)
    assert (await cluster.append(topic, big)).error == 0
    await cluster.write(
        keys.config("topic", "tuned"), encode(ConfigOverrides({"max.message.bytes": "1000", "min.insync.replicas": "2"}))
    )

    async def refused() -> bool:
        return (await cluster.append(topic, big)).error == ErrorCode.MESSAGE_TOO_LARGE

    await until(refused)
    assert (await cluster.append(topic, batch(b"x"))).error == 0  # a minimum above the replication factor means all of them


async def test_a_caller_that_is_behind_is_served_and_one_that_is_ahead_is_not(cluster: StorageCluster) -> None:
    topic = await cluster.topic("epochs", epoch=5)
    assert (await cluster.append(topic, batch(b"x"), epoch=4)).error == 0
    ahead = await cluster.append(topic, batch(b"x"), epoch=6, timeout_ms=20)  # it waits for half of that
    assert (ahead.error, ahead.leader) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    assert (await cluster.append(topic, batch(b"x"), epoch=5)).error == 0
    assert (await cluster.append(topic, batch(b"x"), acks=7)).error == ErrorCode.INVALID_REQUIRED_ACKS


async def test_a_second_process_on_the_same_directory_does_not_start(cluster: StorageCluster, short_dir: Path) -> None:
    other = StorageCluster(Path(cluster.config.data_dir), short_dir, HeldDisk())
    with pytest.raises(DirectoryLocked, match="held by another process"):
        await other.start()
    other.node = None
    await other.store.close()


async def test_a_clean_stop_is_remembered_and_nothing_is_read_again(cluster: StorageCluster) -> None:
    topic = await cluster.topic("clean")
    for number in range(10):
        await cluster.append(topic, batch(b"%d" % number))
    await cluster.stop()
    assert (Path(cluster.config.directories[0]) / ".kafka_cleanshutdown").exists()
    assert await cluster.member() is None
    node = await cluster.start()
    (partition, _), *_ = node.opened.open_logs.all()
    assert partition.log.scanned_bytes == 0
    assert partition.high_watermark == 10


async def test_calls_that_are_not_what_they_should_be_are_refused(cluster: StorageCluster) -> None:
    from libs.rpc.contracts.storage import APPEND, FETCH, LIST_OFFSETS
    from libs.rpc.messages.errors import RpcError

    assert cluster.client is not None
    bodies = {
        APPEND: (
            [],
            [1],
            [-1, 100, []],
            [-1, 100, [[b"x" * 16, 0, 0, 5]]],
            [-1, -1, [[b"x" * 16, 0, 0, 0]]],
            [-1, 100, [["x", 0, 0, 0]]],
            [-1, 100, [[b"", 0, 0, -1]]],
        ),
        FETCH: ([], [1, 2, 3], ["x", 1, 1, 0, []]),
        LIST_OFFSETS: ([], [0, [[b"x" * 16]]]),
    }
    for method, wrong in bodies.items():
        for body in wrong:
            with pytest.raises(RpcError) as refused:
                await cluster.client.call(method, body, timeout_s=WAIT_S)
            assert refused.value.code == ErrorCode.INVALID_REQUEST


async def test_a_node_that_waits_for_its_cluster_can_be_stopped(tmp_path: Path, short_dir: Path) -> None:
    lonely = StorageCluster(tmp_path, short_dir, HeldDisk())
    starting = asyncio.ensure_future(lonely.start(cluster_id=None))
    await until(lambda: lonely.node is not None)
    assert lonely.node is not None
    assert lonely.node.ready() == (False, "waiting for the metadata store")
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    await lonely.stop()
    await lonely.store.close()
