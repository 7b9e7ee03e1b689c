"""Bugs of other systems' followers, one by one, beside a leader that the test plays."""

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from libs.cluster import keys
from libs.commitlog.partition_log.log import Log
from libs.rpc.contracts.replication import Pulled, PulledFrom
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.batches import set_max_timestamp
from libs.wire.record_batches.markers import Marker, build_marker
from tests.storage.cluster import StorageCluster, batch, partition_of
from tests.storage.fake_leader import FakeLeader, LeaderLog
from tests.storage.following import caught_up, content, followed, log_of, log_with
from tests.support.polling import until


async def test_two_fast_failovers_are_walked_back_until_the_logs_agree(cluster: StorageCluster, leader: FakeLeader) -> None:
    """KIP-279, KAFKA-6361: the follower's last epoch is unknown to the leader, and so is the one before."""
    topic, _ = await followed(cluster, leader, "twice", epoch=3)
    await leader.leads(topic, epoch=3, log=log_with((0, 4), (2, 3), (3, 2)))
    leader.changed()
    await caught_up(cluster, topic, leader.logs[topic, 0])
    other = log_with((0, 4), (1, 5), (4, 1))
    await leader.leads(topic, epoch=4, log=other)
    await until(lambda: content(cluster, topic) == b"".join(other.batches))
    assert log_of(cluster, topic).epochs.entries() == [(0, 0), (1, 4), (4, 9)]


async def test_an_epoch_in_which_nothing_was_written_contradicts_nobody(cluster: StorageCluster, leader: FakeLeader) -> None:
    """KAFKA-10706: this node led for a moment; the next leader knows of another epoch at the same offset."""
    topic, log = await followed(cluster, leader, "moment", epoch=0)
    log.append(b"a", b"b")
    leader.changed()
    await caught_up(cluster, topic, log)
    await cluster.state(topic, epoch=1)
    await cluster.leads(topic, epoch=1)
    assert log_of(cluster, topic).epochs.entries() == [(0, 0), (1, 2)]
    await leader.leads(topic, epoch=2, log=log)
    log.append(b"c")
    leader.changed()
    await caught_up(cluster, topic, log)
    assert log_of(cluster, topic).epochs.entries() == [(0, 0), (2, 2)]


async def test_a_follower_that_missed_an_epoch_cuts_though_its_leader_is_the_same(
    cluster: StorageCluster, leader: FakeLeader
) -> None:
    """KAFKA-7164: the leader followed somebody else in between, and lost its end to them."""
    topic, _ = await followed(cluster, leader, "missed", epoch=0)
    await leader.leads(topic, epoch=0, log=log_with((0, 5)))
    leader.changed()
    await caught_up(cluster, topic, leader.logs[topic, 0])
    back = log_with((0, 3), (1, 1), (2, 1))
    await leader.leads(topic, epoch=2, log=back)
    await until(lambda: content(cluster, topic) == b"".join(back.batches))


async def test_a_parting_is_heeded_before_a_high_watermark_that_came_with_it(cluster: StorageCluster, leader: FakeLeader) -> None:
    """KAFKA-14704: what lies beyond the parting would have been shown to readers."""
    topic, _ = await followed(cluster, leader, "heeded", epoch=0)
    await leader.leads(topic, epoch=0, log=log_with((0, 5)))
    leader.changed()
    await caught_up(cluster, topic, leader.logs[topic, 0])
    seen: list[int] = []
    mine = partition_of(cluster, topic)
    other = log_with((0, 2), (1, 1))
    other.high_watermark = 2

    def lie(where: PulledFrom, pulled: Pulled, found: bytes) -> tuple[Pulled, bytes]:
        seen.append(mine.high_watermark)
        return (replace(pulled, high_watermark=100), found) if pulled.diverging_epoch >= 0 else (pulled, found)

    leader.lies += [lie] * 3
    await leader.leads(topic, epoch=1, log=other)
    await until(lambda: content(cluster, topic) == b"".join(other.batches))
    await until(lambda: mine.high_watermark == 2)
    assert max(seen) <= 2


async def test_a_late_answer_cuts_nothing_of_what_is_led_by_now(cluster: StorageCluster, leader: FakeLeader) -> None:
    """KAFKA-13207."""
    topic, log = await followed(cluster, leader, "late", epoch=0)
    log.append(b"a", b"b", b"c")
    leader.changed()
    await caught_up(cluster, topic, log)
    assert cluster.node is not None
    following = cluster.node.opened.fetchers
    assert following is not None
    link = following.fetchers[leader.node_id]
    asked = PulledFrom(topic, 0, 0, 3, 3, 0, 0)
    session = link._session
    await cluster.state(topic, epoch=1)
    await cluster.leads(topic, epoch=1)
    session._reported[topic, 0] = 0, asked
    late = Pulled(topic, 0, 0, 0, 3, 0, 3, diverging_epoch=0, diverging_end_offset=1)
    list(
        link._puller.applying.steps([(late, memoryview(b""))], session, session.sequence, link.followed, {}, lambda ranges: None)
    )
    assert log_of(cluster, topic).log_end_offset == 3


async def test_an_answer_to_an_older_epoch_of_the_same_leader_is_dropped(cluster: StorageCluster, leader: FakeLeader) -> None:
    topic, log = await followed(cluster, leader, "older", epoch=3)
    log.append(b"a", b"b", b"c")
    leader.changed()
    await caught_up(cluster, topic, log)
    log.append(b"d")
    leader.lies.append(
        lambda where, pulled, found: (
            replace(pulled, leader_epoch=2, inline_length=0, diverging_epoch=2, diverging_end_offset=0),
            b"",
        )
    )
    leader.changed()
    await caught_up(cluster, topic, log)
    assert content(cluster, topic) == b"".join(log.batches)


async def test_the_high_watermark_of_a_log_that_begins_anew_is_its_start(cluster: StorageCluster, leader: FakeLeader) -> None:
    """KAFKA-9491: the leader has deleted everything that this follower has, and more."""
    topic, log = await followed(cluster, leader, "anew", epoch=0)
    log.append(b"a", b"b")
    leader.changed()
    await caught_up(cluster, topic, log)
    log.append(b"far away", at=50)
    log.start, log.batches = 50, log.batches[-1:]
    leader.changed()
    await caught_up(cluster, topic, log)
    mine = partition_of(cluster, topic)
    assert (mine.log_start_offset, mine.log_end_offset, mine.high_watermark) == (50, 51, 51)
    assert content(cluster, topic) == b"".join(log.batches)
    await until(lambda: mine.log.durable_offset == 51)
    await cluster.stop()
    (Path(cluster.config.directories[0]) / ".kafka_cleanshutdown").unlink()
    await cluster.start()
    await caught_up(cluster, topic, log)
    assert partition_of(cluster, topic).log_start_offset == 50


async def test_a_new_follower_begins_in_the_middle_of_a_batch(cluster: StorageCluster, leader: FakeLeader) -> None:
    """KAFKA-6975: DeleteRecords left the leader's start within one."""
    log = LeaderLog(0)
    log.append(*[b"x"] * 10)
    log.append(*[b"y"] * 10)
    log.append(b"z")
    log.start = 14
    topic = b"middle".ljust(16, b"\0")
    await leader.leads(topic, epoch=0, log=log)
    await followed(cluster, leader, "middle", epoch=0)
    await caught_up(cluster, topic, log)
    mine = partition_of(cluster, topic)
    assert mine.log_start_offset == 14
    assert content(cluster, topic) == b"".join(log.batches[1:])
    await cluster.stop()
    await cluster.start()
    await caught_up(cluster, topic, log)
    assert partition_of(cluster, topic).log_start_offset == 14


async def test_a_log_that_ends_after_the_leaders_and_starts_after_its_end_begins_anew(
    cluster: StorageCluster, leader: FakeLeader
) -> None:
    """An unclean election chose somebody who has less than this node has deleted."""
    topic, log = await followed(cluster, leader, "less", epoch=0)
    for _ in range(20):
        log.append(b"x")
    leader.changed()
    await caught_up(cluster, topic, log)
    log.start = 12
    leader.changed()
    await until(lambda: partition_of(cluster, topic).log_start_offset == 12)
    other = log_with((0, 5))
    other.elected(1)
    other.append(b"another")
    await leader.leads(topic, epoch=1, log=other)
    await caught_up(cluster, topic, other)
    assert content(cluster, topic) == b"".join(other.batches)
    assert partition_of(cluster, topic).log_start_offset == 0


async def test_transactions_that_were_cut_hold_up_no_reader(cluster: StorageCluster, leader: FakeLeader) -> None:
    """KAFKA-12153: what is unstable is known before the log's end is."""
    topic, _ = await followed(cluster, leader, "unstable", epoch=0)
    log = log_with((0, 2))
    open_one = bytearray(batch(b"open", producer=(7, 0, 0)))
    open_one[22] |= 0x10  # transactional
    set_max_timestamp(memoryview(open_one), 1_700_000_000_000)
    await leader.leads(topic, epoch=0, log=log)
    log.append(raw=bytes(open_one))
    leader.changed()
    await caught_up(cluster, topic, log)
    assert partition_of(cluster, topic).last_stable_offset == 2
    other = log_with((0, 2), (1, 1))
    other.high_watermark = 3
    await leader.leads(topic, epoch=1, log=other)
    await until(lambda: content(cluster, topic) == b"".join(other.batches))
    await caught_up(cluster, topic, other)
    assert partition_of(cluster, topic).last_stable_offset == 3


async def test_markers_end_transactions_on_followers(cluster: StorageCluster, leader: FakeLeader) -> None:
    topic, log = await followed(cluster, leader, "marked", epoch=0)
    open_one = bytearray(batch(b"aborted", producer=(7, 0, 0)))
    open_one[22] |= 0x10
    set_max_timestamp(memoryview(open_one), 1_700_000_000_000)
    log.append(raw=bytes(open_one))
    log.append(raw=bytes(build_marker(Marker(True, 0), producer_id=7, producer_epoch=0, timestamp_ms=1_700_000_000_000)))
    leader.changed()
    await caught_up(cluster, topic, log)
    await cluster.state(topic, epoch=1)
    await cluster.leads(topic, epoch=1)
    await until(lambda: partition_of(cluster, topic).last_stable_offset == 2)
    assert (await cluster.fetch(topic, 0, isolation=1)).aborted == ((7, 0),)


@pytest.mark.parametrize(
    "error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.KAFKA_STORAGE_ERROR]
)
async def test_a_leader_that_is_not_ready_is_asked_again(cluster: StorageCluster, leader: FakeLeader, error: ErrorCode) -> None:
    topic, log = await followed(cluster, leader, "ready")
    log.append(b"a")
    log.error = int(error)
    leader.changed()
    before = len(leader.pulls)
    await until(lambda: len(leader.pulls) > before + 2)
    log.error = 0
    await caught_up(cluster, topic, log)


@pytest.mark.parametrize("refusal", [70, 71, 77, -1])
async def test_a_refused_pull_begins_another_session(cluster: StorageCluster, leader: FakeLeader, refusal: int) -> None:
    topic, log = await followed(cluster, leader, "refused")
    leader.refusals += [refusal] * 2
    leader.changed()
    await until(lambda: not leader.refusals)
    log.append(b"a")
    leader.changed()
    await caught_up(cluster, topic, log)
    sessions = [pull.session for pull in leader.pulls]
    assert sessions == sorted(sessions)
    assert len(set(sessions)) > 1


async def test_a_follower_finds_its_leader_again_after_a_restart_of_either(cluster: StorageCluster, leader: FakeLeader) -> None:
    topic, log = await followed(cluster, leader, "again")
    log.append(b"a")
    leader.changed()
    await caught_up(cluster, topic, log)
    await leader.stop()
    log.append(b"b")
    await leader.start(incarnation=2)
    await leader.leads(topic, epoch=1)
    await caught_up(cluster, topic, log)
    await cluster.stop()
    log.append(b"c")
    await cluster.start()
    await caught_up(cluster, topic, log)


async def test_batches_that_do_not_match_their_crc_are_asked_for_again(cluster: StorageCluster, leader: FakeLeader) -> None:
    topic, log = await followed(cluster, leader, "bits")

    def flip(where: PulledFrom, pulled: Pulled, found: bytes) -> tuple[Pulled, bytes]:
        return pulled, found[:-1] + bytes([found[-1] ^ 1]) if found else found

    leader.lies += [flip] * 2
    log.append(b"a")
    leader.changed()
    await caught_up(cluster, topic, log)
    assert content(cluster, topic) == b"".join(log.batches)


async def test_a_follower_that_is_stopped_at_any_moment_goes_on_where_it_was(cluster: StorageCluster, leader: FakeLeader) -> None:
    topic, log = await followed(cluster, leader, "stopped", epoch=0)
    for number in range(8):
        for value in range(20):
            log.append(b"%d" % value, committed=value < 15)
        leader.changed()
        if number % 2:
            fork = LeaderLog(log.epoch, log.start, batches=log.batches[:-7], epochs=list(log.epochs))
            fork.end = log.end - 7
            fork.high_watermark = fork.end
            log = fork
        await leader.leads(topic, epoch=number + 1, log=log)
        for _ in range(number):
            await asyncio.sleep(0)
        await cluster.stop()
        if number % 3:
            (Path(cluster.config.directories[0]) / ".kafka_cleanshutdown").unlink(missing_ok=True)
        await cluster.start()
    log.high_watermark = log.end
    leader.changed()
    await caught_up(cluster, topic, log)
    assert content(cluster, topic) == b"".join(log.batches)


async def test_a_disk_that_takes_no_checkpoint_puts_a_cut_off_and_the_log_can_be_led_meanwhile(
    cluster: StorageCluster, leader: FakeLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, _ = await followed(cluster, leader, "unwritten", epoch=0)
    await leader.leads(topic, epoch=0, log=log_with((0, 5)))
    leader.changed()
    await caught_up(cluster, topic, leader.logs[topic, 0])
    assert cluster.node is not None
    asked = []

    async def refuse(disk: object) -> bool:
        asked.append(disk)
        return False

    monkeypatch.setattr(cluster.node.opened.checkpoints, "write_high_watermarks_of", refuse)
    await leader.leads(topic, epoch=1, log=log_with((0, 2), (1, 1)))
    await until(lambda: len(asked) > 1)
    await cluster.state(topic, epoch=2)
    await cluster.leads(topic, epoch=2)
    assert (await cluster.append(topic, batch(b"x"))).base_offset == 5


async def test_a_gap_that_no_segment_spans_is_copied(cluster: StorageCluster, leader: FakeLeader) -> None:
    """KAFKA-5413: a leader compacted what lay between."""
    topic, log = await followed(cluster, leader, "gap")
    log.append(b"a")
    log.append(b"b", at=1 << 40)
    leader.changed()
    await caught_up(cluster, topic, log)
    assert content(cluster, topic) == b"".join(log.batches)
    await cluster.stop()
    (Path(cluster.config.directories[0]) / ".kafka_cleanshutdown").unlink()
    await cluster.start()
    await caught_up(cluster, topic, log)
    assert content(cluster, topic) == b"".join(log.batches)


async def test_a_progress_that_the_leader_ignored_is_repeated_by_the_next_pull(
    cluster: StorageCluster, leader: FakeLeader
) -> None:
    """It did not lead yet in this epoch when it came: the high watermark stood still until the next batch."""
    topic, log = await followed(cluster, leader, "passed")
    log.append(b"a", b"b")
    leader.changed()
    await until(lambda: leader.durable(topic) == 2)
    await until(lambda: any(one.durable_offset == 2 for pull in leader.pulls for one in pull.partitions))


async def in_the_middle_of_a_cut(
    cluster: StorageCluster, leader: FakeLeader, name: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[bytes, threading.Event]:
    """The log's thread waits for the event."""
    topic, _ = await followed(cluster, leader, name, epoch=0)
    await leader.leads(topic, epoch=0, log=log_with((0, 5)))
    leader.changed()
    await caught_up(cluster, topic, leader.logs[topic, 0])
    begun, go_on = threading.Event(), threading.Event()
    cut = Log.truncate_to

    def slowly(log: Log, offset: int) -> int:
        begun.set()
        assert go_on.wait(60)
        return cut(log, offset)

    monkeypatch.setattr(Log, "truncate_to", slowly)
    await leader.leads(topic, epoch=1, log=log_with((0, 2), (1, 1)))
    await until(begun.is_set)
    return topic, go_on


async def test_a_node_that_is_elected_in_the_middle_of_a_cut_leads_when_it_has_ended(
    cluster: StorageCluster, leader: FakeLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, go_on = await in_the_middle_of_a_cut(cluster, leader, "elected", monkeypatch)
    await cluster.state(topic, epoch=2)

    def heard() -> bool:
        assert cluster.node is not None
        state = cluster.node.partitions.image.partition(topic, 0)
        return state is not None and state.leader_epoch == 2

    await until(heard)
    assert (await cluster.append(topic, batch(b"x"), timeout_ms=20)).error != 0
    go_on.set()
    await cluster.leads(topic, epoch=2)
    # The leader of epoch 1 had three batches; where its log parted, the next answer would have told.
    assert (await cluster.append(topic, batch(b"x"))).base_offset == 3
    assert log_of(cluster, topic).epochs.entries() == [(0, 0), (2, 3)]


async def test_a_topic_that_is_deleted_in_the_middle_of_a_cut_goes_when_it_has_ended(
    cluster: StorageCluster, leader: FakeLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, go_on = await in_the_middle_of_a_cut(cluster, leader, "doomed", monkeypatch)
    directory = Path(cluster.config.directories[0])
    await cluster.write(keys.topic("doomed"), None)
    await cluster.write(keys.partition(topic, 0), None)
    await asyncio.sleep(0)
    assert (directory / "doomed-0").exists()
    go_on.set()
    await until(lambda: not any(path.name.startswith("doomed") for path in directory.iterdir()))
    assert cluster.node is not None
    assert (topic, 0) not in cluster.node.partitions.by_key


async def test_a_node_that_stops_in_the_middle_of_a_cut_waits_for_it(
    cluster: StorageCluster, leader: FakeLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, go_on = await in_the_middle_of_a_cut(cluster, leader, "stopping", monkeypatch)
    stopping = asyncio.create_task(cluster.stop())
    await asyncio.sleep(0)
    go_on.set()
    await stopping
    await cluster.start()
    log = leader.logs[topic, 0]
    log.high_watermark = log.end
    leader.changed()
    await caught_up(cluster, topic, log)
    assert content(cluster, topic) == b"".join(log.batches)
