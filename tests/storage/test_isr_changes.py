"""Changes of the ISR: joins, departures, and the numbers that count while the outcome is open."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.records import ConfigOverrides, InSync
from libs.rpc.contracts.storage import DeletedRecords
from libs.wire.errors import ErrorCode
from tests.storage.cluster import StorageCluster, appended, batch, partition_of
from tests.storage.fake_controller import FakeController
from tests.storage.fake_follower import FakeFollower, at, image, replicated_state, replicated_topic, show
from tests.storage.held_disk import HeldDisk
from tests.support.polling import until


@pytest.fixture
async def two(cluster: StorageCluster) -> AsyncIterator[FakeFollower]:
    follower = await FakeFollower(cluster, 2).register()
    yield follower
    await follower.close()


async def lag_time(cluster: StorageCluster, ms: int, **configs: str) -> None:
    values = {"replica.lag.time.max.ms": str(ms), **{name.replace("_", "."): value for name, value in configs.items()}}
    await cluster.write(keys.config("broker", ""), encode(ConfigOverrides(values)))
    await until(lambda: image(cluster).overrides("broker", "") == values)


def isr(cluster: StorageCluster, topic: bytes) -> dict[int, int]:
    return dict(partition_of(cluster, topic).replica.isr.committed)


def isr_changes(cluster: StorageCluster) -> tuple[int, int]:
    """The numbers of ISR expansions and shrinks."""
    assert cluster.node is not None
    return cluster.node.meters.isr_expands, cluster.node.meters.isr_shrinks


async def test_a_follower_that_caught_up_joins_at_once(
    cluster: StorageCluster, two: FakeFollower, controller: FakeController
) -> None:
    topic = await replicated_topic(cluster, "joins", [1])
    await cluster.append(topic, batch(b"a"))
    await two.pull(at(topic, 0))
    assert controller.requests == []
    await two.pull(at(topic, 1, durable=0))
    assert controller.requests == []  # what is committed on a synced topic is durable at everyone in sync
    two.progress(topic, 1)
    await until(lambda: isr(cluster, topic) == {1: cluster.incarnation, 2: 10})
    (request,) = controller.requests
    assert (request.leader_epoch, request.partition_epoch) == (0, 0)


async def test_one_that_has_what_is_committed_but_not_what_the_epoch_began_with_stays_out(
    cluster: StorageCluster, two: FakeFollower, controller: FakeController, disk: HeldDisk
) -> None:
    topic = await replicated_topic(cluster, "behind", [1, 3], durability="replicated")
    await cluster.append(topic, batch(b"a"), acks=1)
    await cluster.append(topic, batch(b"b"), acks=1)  # node 3 has not got it: nothing is committed
    await show(cluster, topic, replicated_state(cluster, [1, 3], epoch=4, partition_epoch=1))
    await two.pull(at(topic, 1, epoch=4, last_epoch=0))
    assert partition_of(cluster, topic).high_watermark == 0
    assert not partition_of(cluster, topic).replica.may_join(2)
    await two.pull(at(topic, 2, epoch=4, last_epoch=0))
    await until(lambda: 2 in isr(cluster, topic))


async def test_a_joining_replica_counts_from_when_it_is_proposed(
    cluster: StorageCluster, two: FakeFollower, controller: FakeController
) -> None:
    topic = await replicated_topic(cluster, "counts", [1], durability="replicated")
    controller.answer = lambda wanted: None
    await two.pull(at(topic, 0))
    await until(lambda: len(controller.requests) >= 2)  # it is asked again and again
    assert len(set(controller.requests)) == 1
    await cluster.append(topic, batch(b"a"), acks=1)
    assert partition_of(cluster, topic).high_watermark == 0  # the controller may have let it in
    assert partition_of(cluster, topic).replica.in_sync == 1  # or not
    await two.pull(at(topic, 1))
    assert partition_of(cluster, topic).high_watermark == 1


async def test_a_member_that_restarted_and_is_proposed_again_commits_what_it_has(
    cluster: StorageCluster, two: FakeFollower, controller: FakeController
) -> None:
    """In its new life. Nobody was told of the high watermark that rose with the proposal, and producers waited for the next."""
    topic = await replicated_topic(cluster, "restarted", [1], durability="replicated")
    former = (InSync(1, cluster.incarnation), InSync(2, 9))
    await show(cluster, topic, replicated_state(cluster, [1], partition_epoch=1), isr=former)
    controller.answer = lambda wanted: None
    waiting = asyncio.create_task(cluster.append(topic, batch(b"a")))
    await until(lambda: partition_of(cluster, topic).log_end_offset == 1)
    await two.pull(at(topic, 1))
    assert (await waiting).error == 0


async def test_an_answer_that_was_lost_is_made_up_for_by_the_image(
    cluster: StorageCluster, two: FakeFollower, controller: FakeController
) -> None:
    topic = await replicated_topic(cluster, "lost", [1])
    controller.answer = lambda wanted: None
    await two.pull(at(topic, 0))
    await until(lambda: controller.requests)
    applied = replicated_state(cluster, [1, 2], partition_epoch=1)
    await show(cluster, topic, applied)
    assert isr(cluster, topic) == {1: cluster.incarnation, 2: 10}
    assert partition_of(cluster, topic).replica.isr.proposal is None


async def test_an_isr_change_is_logged_and_counted_once_though_the_image_comes_before_the_answer(
    cluster: StorageCluster, two: FakeFollower, controller: FakeController, caplog: pytest.LogCaptureFixture
) -> None:
    topic = await replicated_topic(cluster, "reported", [1])
    controller.answer = lambda wanted: None
    assert isr_changes(cluster) == (0, 0)
    with caplog.at_level(logging.INFO):
        await two.pull(at(topic, 0))
        await until(lambda: controller.requests)
        await show(cluster, topic, replicated_state(cluster, [1, 2], partition_epoch=1))
        await until(lambda: isr_changes(cluster) == (1, 0))
        await show(cluster, topic, replicated_state(cluster, [1], partition_epoch=2))
        await until(lambda: isr_changes(cluster) == (1, 1))
    assert [record.message for record in caplog.records].count("ISR changed") == 2


async def test_a_proposal_is_logged_at_debug_with_its_reason(
    cluster: StorageCluster, two: FakeFollower, controller: FakeController, caplog: pytest.LogCaptureFixture
) -> None:
    def told() -> list[dict[str, object]]:
        return [record.__dict__["fields"] for record in caplog.records if record.message == "ISR change proposed"]

    caplog.set_level(logging.DEBUG, "replication")
    await lag_time(cluster, 300)
    topic = await replicated_topic(cluster, "reasons", [1])
    await two.pull(at(topic, 0))
    await until(lambda: 2 in isr(cluster, topic))
    (joins,) = told()
    assert (joins["why"], joins["isr"], joins["was"]) == ("node 2 has caught up", [1, 2], [1])
    await cluster.append(topic, batch(b"a"), acks=1)
    await until(lambda: 2 not in isr(cluster, topic))
    leaves = told()[1]
    assert (leaves["isr"], leaves["lag_s_max"]) == ([1], 0.3)
    assert re.fullmatch(r"node 2 lacks 1 records \(1 durable ones\), and had all 0\.\d+ s ago", str(leaves["why"]))


async def test_a_sync_round_that_fails_does_not_hold_back_later_effects(cluster: StorageCluster, two: FakeFollower) -> None:
    """The queue stayed in that turn, and effects waited for the next call."""
    topic = await replicated_topic(cluster, "rounds", [1, 2])
    node, partition = cluster.node, partition_of(cluster, topic)
    assert node is not None
    with pytest.raises(AttributeError):
        node.opened.round_ended([None], 0.0)  # type: ignore[list-item]
    partition.replica.isr_shown(1, [InSync(1, cluster.incarnation)])
    await asyncio.sleep(0)
    assert isr_changes(cluster) == (0, 1)


async def test_a_refusal_by_a_controller_with_the_same_state_takes_the_proposal_back(
    cluster: StorageCluster, two: FakeFollower, controller: FakeController
) -> None:
    topic = await replicated_topic(cluster, "refused", [1], durability="replicated")
    controller.answer = lambda wanted: controller.holds(wanted, ErrorCode.INELIGIBLE_REPLICA)
    await two.pull(at(topic, 0))
    await until(lambda: controller.requests)
    await until(lambda: partition_of(cluster, topic).replica.isr.proposal is None)
    assert (await cluster.append(topic, batch(b"a"))).error == 0  # without it
    controller.answer = None
    await two.pull(at(topic, 1))
    await until(lambda: 2 in isr(cluster, topic))  # later it is tried again


@pytest.mark.parametrize("error", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_UPDATE_VERSION])
async def test_a_refusal_by_a_controller_with_another_state_proves_nothing(
    cluster: StorageCluster, two: FakeFollower, controller: FakeController, error: ErrorCode
) -> None:
    """It was applied, the answer was lost, and now another leads, perhaps the very one that joined."""
    topic = await replicated_topic(cluster, "fenced", [1], durability="replicated")
    controller.answer = lambda wanted: None
    await two.pull(at(topic, 0))
    await until(lambda: controller.requests)
    asked_before = len(controller.requests)
    later = controller.holds(controller.requests[0], error)
    fields = {"leader": 2, "leader_epoch": 1, "partition_epoch": 2}
    controller.answer = lambda wanted: type(later)(error, isr=((2, 10),), **fields)
    await until(lambda: len(controller.requests) > asked_before)
    await cluster.append(topic, batch(b"a"), acks=1)
    assert partition_of(cluster, topic).high_watermark == 0


async def test_a_silent_follower_leaves_and_the_high_watermark_goes_on(
    cluster: StorageCluster, two: FakeFollower, controller: FakeController
) -> None:
    await lag_time(cluster, 300)
    topic = await replicated_topic(cluster, "leaves", [1, 2])
    await two.pull(at(topic, 0))
    waiting = cluster.send([(topic, 0, batch(b"a"))])
    assert appended(await waiting)[0].error == 0
    assert isr(cluster, topic) == {1: cluster.incarnation}


async def test_kafka_13091_a_shrunk_isr_advances_the_high_watermark_once_it_is_known_to_be(
    cluster: StorageCluster, two: FakeFollower, controller: FakeController
) -> None:
    await lag_time(cluster, 300)
    topic = await replicated_topic(cluster, "shrinks", [1, 2])
    controller.answer = lambda wanted: None
    waiting = cluster.send([(topic, 0, batch(b"a"))])
    await until(lambda: controller.requests)
    assert controller.requests[0].isr == ((1, cluster.incarnation),)
    assert partition_of(cluster, topic).high_watermark == 0
    assert not waiting.done()
    controller.answer = None
    assert appended(await waiting)[0].error == 0


async def test_a_follower_at_the_end_stays_however_quiet_it_is(
    cluster: StorageCluster, two: FakeFollower, controller: FakeController
) -> None:
    await lag_time(cluster, 100)
    topic = await replicated_topic(cluster, "quiet", [1, 2])
    other = await replicated_topic(cluster, "other", [1, 3])  # of a follower that never came
    await two.pull(at(topic, 0))
    await cluster.append(other, batch(b"a"), acks=1)
    await until(lambda: isr(cluster, other) == {1: cluster.incarnation})
    assert 2 in isr(cluster, topic)


async def test_too_many_records_behind_is_too_much_where_that_is_asked_for(
    cluster: StorageCluster, two: FakeFollower, controller: FakeController
) -> None:
    await lag_time(cluster, 30_000, replica_lag_max_messages="2")
    topic = await replicated_topic(cluster, "many", [1, 2])
    await two.pull(at(topic, 0))
    await cluster.append(topic, batch(b"a", b"b", b"c"), acks=1)
    await until(lambda: isr(cluster, topic) == {1: cluster.incarnation})


async def test_the_high_watermark_stands_while_fewer_than_the_minimum_are_in_sync(
    cluster: StorageCluster, two: FakeFollower
) -> None:
    topic = await replicated_topic(cluster, "minimum", [1, 2], min_insync_replicas="2")
    await two.pull(at(topic, 0))
    waiting = cluster.send([(topic, 0, batch(b"a"))], timeout_ms=300)
    await until(lambda: partition_of(cluster, topic).replica.durable == 1)
    await show(cluster, topic, replicated_state(cluster, [1], partition_epoch=1))
    refused = await cluster.append(topic, batch(b"b"))
    assert refused.error == ErrorCode.NOT_ENOUGH_REPLICAS
    assert (await cluster.append(topic, batch(b"c"), acks=1)).error == 0
    assert partition_of(cluster, topic).high_watermark == 0
    assert appended(await waiting)[0].error == ErrorCode.REQUEST_TIMED_OUT
    await two.pull(at(topic, 2))
    await show(cluster, topic, replicated_state(cluster, [1, 2], partition_epoch=2))
    await until(lambda: partition_of(cluster, topic).high_watermark == 2)


async def test_a_produce_that_waits_for_the_minimum_is_answered_when_fewer_replicas_lower_it(cluster: StorageCluster) -> None:
    """A reassignment to one replica ends. Whoever had waited timed out: the high watermark rose, and nobody was told."""
    topic = await replicated_topic(cluster, "fewer", [1, 2], min_insync_replicas="2")
    waiting = cluster.send([(topic, 0, batch(b"a"))])
    await until(lambda: partition_of(cluster, topic).replica.durable == 1)
    await show(cluster, topic, replicated_state(cluster, [1], partition_epoch=1))
    assert partition_of(cluster, topic).high_watermark == 0
    await show(cluster, topic, replicated_state(cluster, [1], replicas=[1], partition_epoch=2))
    assert appended(await waiting)[0].error == 0
    assert partition_of(cluster, topic).high_watermark == 1


async def test_a_produce_that_waits_when_the_minimum_is_raised_above_the_isr_does_not_succeed(
    cluster: StorageCluster, two: FakeFollower
) -> None:
    topic = await replicated_topic(cluster, "raised", [1, 2], replicas=[1, 2, 3])
    await two.pull(at(topic, 0))
    waiting = cluster.send([(topic, 0, batch(b"a"))], timeout_ms=300)
    await until(lambda: partition_of(cluster, topic).replica.durable == 1)
    await cluster.write(keys.config("topic", "raised"), encode(ConfigOverrides({"min.insync.replicas": "3"})))
    await until(lambda: partition_of(cluster, topic).replica.min_in_sync == 3)
    await two.pull(at(topic, 1))
    two.progress(topic, 1)
    assert appended(await waiting)[0].error == ErrorCode.REQUEST_TIMED_OUT
    assert partition_of(cluster, topic).high_watermark == 0


async def test_one_whose_log_still_starts_with_what_was_deleted_stays_out(
    cluster: StorageCluster, two: FakeFollower, controller: FakeController
) -> None:
    """The answer to DeleteRecords waits for those in sync: whoever joins later must not bring the records back."""
    topic = await replicated_topic(cluster, "shortened", [1], durability="replicated")
    await cluster.append(topic, batch(b"a", b"b"), acks=1)
    assert await cluster.delete_records(topic, 1) == DeletedRecords(0, 1)
    await two.pull(at(topic, 2))
    assert partition_of(cluster, topic).replica.isr.proposal is None
    two.progress(topic, 2, log_start=1)
    await until(lambda: 2 in isr(cluster, topic))
    assert len(controller.requests) == 1


@pytest.mark.parametrize("replicas", [[1], [1, 2]])
async def test_a_leader_says_that_all_is_on_disks_once_its_topic_is_synced(
    cluster: StorageCluster, two: FakeFollower, controller: FakeController, replicas: list[int]
) -> None:
    topic = await replicated_topic(cluster, "hardened", replicas, replicas=replicas, durability="replicated")
    lax = replicated_state(cluster, replicas, partition_epoch=1, replicas=replicas)
    await show(cluster, topic, lax, lax=True)
    await cluster.append(topic, batch(b"a"), acks=1)
    await two.pull(at(topic, 1))
    await until(lambda: partition_of(cluster, topic).high_watermark == 1)
    assert controller.requests == []
    await cluster.write(keys.config("topic", "hardened"), encode(ConfigOverrides({"durability": "synced"})))
    await until(lambda: controller.requests)
    assert controller.requests[0].durable
    assert [node_id for node_id, _ in controller.requests[0].isr] == replicas


async def test_a_waiting_produce_is_refused_when_leadership_moves(cluster: StorageCluster, two: FakeFollower) -> None:
    topic = await replicated_topic(cluster, "lost-leadership", [1, 2])
    waiting = cluster.send([(topic, 0, batch(b"a"))])
    await until(lambda: partition_of(cluster, topic).log_end_offset == 1)
    await show(cluster, topic, replicated_state(cluster, [1, 2]), leader=2, leader_incarnation=10, leader_epoch=1)
    assert appended(await waiting)[0].error == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_node_that_is_about_to_stop_is_not_let_in(
    cluster: StorageCluster, two: FakeFollower, controller: FakeController
) -> None:
    topic = await replicated_topic(cluster, "stopping", [1])
    await two.announce(stopping=True)
    await two.pull(at(topic, 0))
    assert partition_of(cluster, topic).replica.may_join(2)
    assert partition_of(cluster, topic).replica.isr.proposal is None
    await two.announce()
    await two.pull(at(topic, 0))
    await until(lambda: isr(cluster, topic) == {1: cluster.incarnation, 2: 10})
    assert len(controller.requests) == 1


async def test_a_member_that_restarted_is_known_by_its_new_incarnation_once_it_caught_up(
    cluster: StorageCluster, controller: FakeController
) -> None:
    """KAFKA-15221: what it has now decides, not what it had."""
    topic = await replicated_topic(cluster, "reborn", [1, 2], durability="replicated")
    await cluster.append(topic, batch(b"a"), acks=1)
    reborn = await FakeFollower(cluster, 2, 11).register()
    await reborn.pull(at(topic, 0))
    assert partition_of(cluster, topic).high_watermark == 0
    await until(lambda: isr(cluster, topic) == {1: cluster.incarnation, 2: 11})  # it has all that was committed: nothing
    await reborn.pull(at(topic, 1))
    assert partition_of(cluster, topic).high_watermark == 1
    await reborn.close()
