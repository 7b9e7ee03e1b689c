"""Whether a store has been through what a process has seen: restored from a backup, or only moved on."""

from dataclasses import replace
from random import Random

from libs.cluster.image import ClusterImage
from libs.cluster.metadata_history import ENTRIES_KEPT, NONCES_IN_MARK, lost_nonces, mark_of, next_history, unanswered
from libs.cluster.records import MetadataMark


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
