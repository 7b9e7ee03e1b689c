"""Whether a store has been through what a process has seen: restored from a backup, or only moved on."""

from dataclasses import replace
from random import Random

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.image import ClusterImage
from libs.cluster.memory.memory_keyspace import Keyspace
from libs.cluster.metadata_history import (
    AFTER,
    ENTRIES_KEPT,
    NONCES_IN_MARK,
    lost_nonces,
    mark_of,
    mark_of_lost,
    next_history,
    unanswered,
    went_back,
)
from libs.cluster.records import InSync, MetadataMark, NodeRecord, PartitionState, Replica, Topic
from libs.cluster.store import Delete, Put


def moved_on(image: ClusterImage, entries: int, random: Random, lost: tuple[int, ...] = ()) -> ClusterImage:
    """Some entries later, each a few revisions after the one before."""
    for _ in range(entries):
        history = next_history(image, random.getrandbits(53), lost)
        image, lost = replace(image, revision=image.revision + 3, history=history), ()
    return image


BACKUP = moved_on(ClusterImage(revision=10), 4, Random(1))
LOST = moved_on(BACKUP, 3, Random(2))
RESTORED = moved_on(BACKUP, 5, Random(3))


def test_a_store_that_moved_on_has_been_through_all_marks() -> None:
    later = moved_on(LOST, 2 * NONCES_IN_MARK, Random(4))
    assert lost_nonces(later, mark_of(LOST)) == lost_nonces(later, mark_of(BACKUP)) == ()
    assert lost_nonces(later, MetadataMark()) == ()


def test_a_restored_store_lacks_what_was_seen_after_the_backup_even_if_its_revision_is_higher() -> None:
    assert RESTORED.revision > LOST.revision
    assert lost_nonces(RESTORED, mark_of(LOST)) == tuple(entry.nonce for entry in LOST.history.entries[-3:])
    assert lost_nonces(RESTORED, mark_of(BACKUP)) == ()


def test_one_answer_holds_for_all_marks_of_a_branch() -> None:
    marks = [mark_of(LOST), mark_of(moved_on(BACKUP, 1, Random(2))), mark_of(moved_on(LOST, 1, Random(5)))]
    lost = unanswered(RESTORED, marks[:1])
    answered = moved_on(RESTORED, 1, Random(6), lost)
    assert unanswered(answered, marks) == ()
    assert unanswered(RESTORED, marks)


def test_a_mark_that_is_older_than_all_kept_entries_passes_and_a_newer_one_does_not() -> None:
    later = moved_on(BACKUP, 2 * ENTRIES_KEPT, Random(7))
    assert len(later.history.entries) == ENTRIES_KEPT
    assert lost_nonces(later, mark_of(BACKUP)) == ()
    foreign = moved_on(later, 1, Random(8))
    assert lost_nonces(moved_on(later, 1, Random(9)), mark_of(foreign))


def test_an_empty_store_has_been_through_nothing() -> None:
    assert lost_nonces(ClusterImage(revision=5), mark_of(LOST))


def test_a_branch_without_an_entry_of_its_own_is_known_to_be_lost_by_processes_that_saw_it() -> None:
    marks = [mark_of_lost(replace(BACKUP, revision=revision)) for revision in (50, 60)]
    assert lost_nonces(RESTORED, mark_of(BACKUP)) == ()
    lost = unanswered(RESTORED, marks[:1])
    assert lost == (AFTER + BACKUP.history.entries[-1].nonce,)
    answered = moved_on(RESTORED, 1, Random(6), lost)
    assert unanswered(answered, marks) == ()
    assert unanswered(RESTORED, [mark_of_lost(ClusterImage(revision=7))]) == (AFTER,)


STATE = PartitionState((Replica(1, ""),), 1, 1, 4, 9, (InSync(1, 1),))
TOPIC = bytes(16)


def put(keyspace: Keyspace, *node_ids: int) -> None:
    for node_id in node_ids:
        keyspace.write([Put(keys.node(node_id), encode(NodeRecord(node_id)))])


def put_state(keyspace: Keyspace, partition_epoch: int) -> None:
    keyspace.write([Put(keys.partition(TOPIC, 0), encode(replace(STATE, partition_epoch=partition_epoch)))])


def shown(keyspace: Keyspace) -> ClusterImage:
    return ClusterImage.from_range(keyspace.range(keys.PREFIX))


def is_behind(old: ClusterImage, keyspace: Keyspace) -> bool:
    listed = keyspace.range(keys.PREFIX)
    return went_back(old, old.relisted(listed), listed)


def test_a_store_that_went_back_is_known_by_any_key_that_was_written_in_the_lost_branch() -> None:
    keyspace = Keyspace()
    put(keyspace, 1, 2, 3)
    backup = keyspace.backup()
    put(keyspace, 2, 4)
    image = shown(keyspace)
    assert not is_behind(image, keyspace)
    put(keyspace, 1, 5)
    keyspace.write([Delete(keys.node(3))])
    assert not is_behind(image, keyspace), "it only moved on"
    keyspace.restore(backup)
    assert is_behind(image, keyspace)
    put(keyspace, 1, 5, 6, 7, 8)
    assert shown(keyspace).revision > image.revision
    assert is_behind(image, keyspace)


def test_where_all_keys_of_the_lost_branch_were_written_anew_an_epoch_that_fell_tells() -> None:
    keyspace = Keyspace()
    put_state(keyspace, 9)
    backup = keyspace.backup()
    put_state(keyspace, 10)
    put_state(keyspace, 11)
    image = shown(keyspace)
    put_state(keyspace, 12)
    assert not is_behind(image, keyspace), "it only moved on"
    keyspace.restore(backup)
    put(keyspace, 1, 2, 3)
    put_state(keyspace, 10)
    assert is_behind(image, keyspace)


def test_a_topic_that_is_gone_though_nobody_deleted_it_was_created_in_a_lost_branch() -> None:
    """To follow that store would delete the topic's logs."""
    keyspace = Keyspace()
    backup = keyspace.backup()
    put_state(keyspace, 0)
    keyspace.write([Put(keys.topic("t"), encode(Topic("t", TOPIC.hex(), 1)))])
    image = shown(keyspace)
    created = keyspace.backup()
    keyspace.write([Delete(keys.topic("t")), Delete(keys.partitions_of(TOPIC), prefix=True), Put(keys.DELETIONS, encode(""))])
    assert not is_behind(image, keyspace), "it was deleted"
    keyspace.restore(backup)
    put(keyspace, 1, 2, 3)
    assert is_behind(image, keyspace)
    keyspace.restore(created)
    assert not is_behind(image, keyspace)
