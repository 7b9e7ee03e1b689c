"""TxnOffsetCommit, markers, and what offsets of open transactions do to other requests."""

import pytest

from libs.wire.consumer_protocol import PROTOCOL_TYPE
from libs.wire.errors import ErrorCode
from libs.wire.messages.heartbeat import HeartbeatRequest
from services.group_coordinator.core.model.records import OffsetCommitted, OffsetPending, TransactionEnded
from services.group_coordinator.core.model.topics_view import TopicView
from services.group_coordinator.core.record_formats.record_codec import encode
from tests.group_coordinator.offsets.stage import CHECK_MS, RETENTION_MS, GroupStage, topic_id

UNSTABLE = -int(ErrorCode.UNSTABLE_OFFSET_COMMIT)
NONE, UNKNOWN_TOPIC, ILLEGAL_GENERATION, UNKNOWN_MEMBER, FENCED_INSTANCE = 0, 3, 22, 25, 82


def test_offsets_take_effect_with_their_transaction() -> None:
    stage = GroupStage()
    stage.commit({("t", 0): 1, ("u", 0): 1})
    assert stage.commit_in_transaction({("t", 0): 5}) == {("t", 0): NONE}
    assert stage.fetch() == {("t", 0): 1, ("u", 0): 1}
    assert stage.fetch(stable=True) == {("t", 0): UNSTABLE, ("u", 0): 1}
    assert stage.fetch_named({"t": [0]})["t", 0][0] == 1
    assert stage.end_transaction() == NONE
    assert stage.fetch(stable=True) == {("t", 0): 5, ("u", 0): 1}


def test_offsets_of_an_aborted_transaction_never_take_effect() -> None:
    stage = GroupStage()
    stage.commit_in_transaction({("t", 0): 5})
    assert stage.fetch() == {}
    assert stage.end_transaction(commits=False) == NONE
    assert stage.fetch(stable=True) == {}
    stage.end_transaction(commits=True)
    assert stage.fetch(stable=True) == {}, "a second marker commits nothing"


def test_another_owner_finds_open_transactions_in_the_log() -> None:
    stage = GroupStage()
    stage.commit_in_transaction({("t", 0): 5})
    stage.fail_over()
    assert stage.machine.offsets.pending.epoch_of(7) == 0
    stage.end_transaction()
    assert stage.fetch() == {("t", 0): 5}
    stage.fail_over()
    assert stage.fetch(stable=True) == {("t", 0): 5}
    assert stage.machine.offsets.pending.epoch_of(7) is None


def test_what_is_written_is_what_kafka_writes_in_a_batch_of_the_producer() -> None:
    stage = GroupStage()
    stage.commit_in_transaction({("t", 0): 5}, (7, 3))
    stage.end_transaction((7, 4), raises_epoch=True)
    first, last = stage.written()
    committed = OffsetCommitted("g", "t", 0, 5, -1, "", stage.now_ms, -1, topic_id("t"))
    assert first == OffsetPending(7, 3, committed)
    assert stage.log[0] == encode(committed)
    assert last == TransactionEnded(7, 4, commits=True, coordinator_epoch=0)
    assert stage.log[1] == (b"\0\0\0\1", b"\0\0\0\0\0\0"), "COMMIT, coordinator epoch 0"


def test_each_transaction_and_each_marker_has_a_batch_of_its_own() -> None:
    stage = GroupStage()
    stage.holds = True
    first = stage.ask_commit({("t", 0): 1})
    others = [
        stage.ask_transactional_commit({("t", 0): 5}, (7, 0)),
        stage.ask_transactional_commit({("t", 1): 5}, (7, 0)),
        stage.ask_transactional_commit({("t", 2): 6}, (8, 0)),
        stage.ask_commit({("u", 0): 1}),
    ]
    appends = []
    stage.holds = False
    keep = stage.store
    stage.store = lambda planned: (appends.append(planned), keep(planned))  # type: ignore[assignment,method-assign]
    stage.settle()
    assert first.answered
    assert all(each.answered for each in others)
    assert [(len(each.records), each.transaction and each.transaction.producer_id) for each in appends] == [
        (1, None), (2, 7), (1, 8), (1, None),
    ]  # fmt: skip


def test_a_producer_that_is_refused_does_no_harm_to_those_behind_it() -> None:
    """The leader knows a newer epoch of that producer."""
    stage = GroupStage()
    stage.holds = True
    zombie = stage.ask_transactional_commit({("t", 0): 5}, (7, 0))
    behind = stage.ask_commit({("t", 0): 1})
    stage.refuse(int(ErrorCode.INVALID_PRODUCER_EPOCH))
    assert zombie.failure == ErrorCode.INVALID_PRODUCER_EPOCH
    assert behind.failure == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "it may be sent again"
    assert stage.fetch(stable=True) == {}
    assert stage.commit({("t", 0): 1}) == {("t", 0): NONE}, "the claim still stands"


def test_kafka_15784_offsets_that_are_not_in_the_log_are_not_pending() -> None:
    """Pending offsets were noted before they were appended. Where the append failed they stayed, and a marker made them count."""
    stage = GroupStage()
    stage.commit_in_transaction({("t", 0): 5})
    stage.holds = True
    failed = stage.ask_transactional_commit({("t", 0): 6, ("t", 1): 6})
    assert stage.machine.offsets.pending.epoch_of(7) == 0
    stage.refuse(int(ErrorCode.NOT_ENOUGH_REPLICAS))
    assert failed.failure == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert stage.end_transaction() == NONE
    assert stage.fetch(stable=True) == {("t", 0): 5}


def test_readers_that_wait_behind_a_refused_producer_do_not_hear_its_error() -> None:
    """They have no records in its batch. Java's consumers take INVALID_PRODUCER_EPOCH for fatal here."""
    stage = GroupStage()
    member_id, generation = stage.member("t")
    stage.holds = True
    zombie = stage.ask_transactional_commit({("t", 0): 5}, (7, 0))
    heartbeat = stage.ask(HeartbeatRequest("g", generation, member_id), 4)
    stage.refuse(int(ErrorCode.INVALID_PRODUCER_EPOCH))
    assert zombie.failure == ErrorCode.INVALID_PRODUCER_EPOCH
    assert heartbeat.failure in (NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


@pytest.mark.parametrize(("epoch", "raises_epoch", "error"), [(2, False, 47), (3, True, 48), (3, False, 0), (4, True, 0)])
def test_a_marker_must_fit_the_epoch_of_the_transaction(epoch: int, raises_epoch: bool, error: int) -> None:
    stage = GroupStage()
    stage.commit_in_transaction({("t", 0): 5}, (7, 3))
    assert stage.end_transaction((7, epoch), raises_epoch=raises_epoch) == error
    assert stage.fetch() == ({} if error else {("t", 0): 5})


# -- who may commit -----------------------------------------------------------------------------------------------------------


def test_a_producer_that_names_no_member_may_commit_for_any_group() -> None:
    """As versions before 3 do."""
    stage = GroupStage()
    stage.member("t")
    assert stage.commit_in_transaction({("t", 0): 5}) == {("t", 0): NONE}
    assert stage.commit_in_transaction({("t", 0): 5}, name="nowhere") == {("t", 0): NONE}


def test_a_producer_that_names_a_member_must_name_its_generation() -> None:
    stage = GroupStage()
    member_id, generation = stage.member("t")

    def error(member_id: str, generation: int, instance: str | None = None, name: str = "g") -> int:
        how = {"member_id": member_id, "generation": generation, "instance": instance, "name": name}
        return stage.commit_in_transaction({("t", 0): 5}, **how)["t", 0]

    assert error(member_id, generation) == NONE
    assert error(member_id, generation - 1) == ILLEGAL_GENERATION
    assert error(member_id, -1) == ILLEGAL_GENERATION
    assert error("somebody", generation) == UNKNOWN_MEMBER
    assert error("", generation) == UNKNOWN_MEMBER
    assert error("", 0, name="nowhere") == ILLEGAL_GENERATION
    stage.commit({("t", 0): 1}, name="simple")
    assert error("", 0, name="simple") == UNKNOWN_MEMBER
    assert error("", -1, name="simple") == NONE


def test_unknown_partitions_and_long_metadata_are_refused_one_by_one() -> None:
    stage = GroupStage(metadata_max=3)
    errors = stage.commit_in_transaction({("t", 0): 5, ("t", 9): 5, ("nowhere", 0): 5}, metadata="four")
    assert errors == {("t", 0): 12, ("t", 9): UNKNOWN_TOPIC, ("nowhere", 0): UNKNOWN_TOPIC}
    assert stage.log == []
    assert stage.commit_in_transaction({("t", 0): 5}, name="") == {("t", 0): 24}


# -- other requests -----------------------------------------------------------------------------------------------------------


def test_a_group_with_pending_offsets_alone_is_a_simple_group() -> None:
    stage = GroupStage()
    stage.commit_in_transaction({("t", 0): 5})
    assert stage.listed() == {"g": ("", "Empty", "classic")}
    assert stage.delete_groups("g") == {"g": NONE}
    assert stage.listed() == {}
    stage.end_transaction()
    assert stage.fetch() == {}, "it was deleted"


def test_deletions_take_pending_offsets_along() -> None:
    stage = GroupStage()
    stage.commit({("t", 0): 1})
    stage.commit_in_transaction({("t", 0): 5, ("u", 0): 6, ("u", 1): 7})
    assert stage.delete_offsets({"t": [0], "u": [0]}) == {("t", 0): NONE, ("u", 0): NONE}
    stage.fail_over()
    stage.end_transaction()
    assert stage.fetch() == {("u", 1): 7}


def test_nothing_of_a_partition_expires_while_its_offset_is_pending() -> None:
    stage = GroupStage()
    stage.commit({("t", 0): 1, ("t", 1): 1})
    stage.commit_in_transaction({("t", 0): 5})
    stage.wait(RETENTION_MS + CHECK_MS)
    assert stage.fetch() == {("t", 0): 1}
    stage.end_transaction(commits=False)
    stage.wait(CHECK_MS)
    assert stage.fetch() == {}
    assert stage.listed() == {}


def test_the_offset_of_a_deleted_topic_expires_without_the_pending_one_of_the_next_topic_with_its_name() -> None:
    stage = GroupStage()
    stage.commit({("t", 0): 1})
    stage.put_topics(TopicView(topic_id("t", 1), "t", 4))
    stage.commit_in_transaction({("t", 0): 5})
    stage.wait(CHECK_MS)
    assert stage.fetch_named({"t": [0]})["t", 0][0] == -1, "the former topic's offset does not count for the next one"
    assert stage.end_transaction() == NONE
    assert stage.fetch() == {("t", 0): 5}, "it was acknowledged, and its transaction is committed"


def test_a_consumer_group_keeps_its_members_out_of_others_transactions() -> None:
    stage = GroupStage()
    member_id, generation = stage.member("t", kind=PROTOCOL_TYPE)
    stage.commit_in_transaction({("t", 0): 5}, member_id=member_id, generation=generation)
    assert stage.fetch(stable=True) == {}
    stage.leave(member_id)
    assert stage.commit_in_transaction({("t", 0): 6}, (8, 0), member_id=member_id, generation=generation) == {("t", 0): 25}
    stage.end_transaction()
    assert stage.fetch(stable=True) == {("t", 0): 5}
