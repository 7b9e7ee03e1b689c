"""The history of the metadata store: whether a store has been through what a process has seen of it.

A store that is restored from a backup goes back in time. Its revisions are given out again, so that a revision alone tells
nothing. Hence the active controller puts random numbers into a history, and each process keeps the newest of them as its mark. A
store that lacks the last number of a mark is another branch of history.

A process that runs meanwhile knows more than its mark: it compares its whole image.
"""

from collections.abc import Iterable, Sequence

from libs.cluster import keys
from libs.cluster.image import ClusterImage, PartitionChange
from libs.cluster.records import HistoryEntry, MetadataHistory, MetadataMark
from libs.cluster.store import RangeResult

ENTRIES_KEPT = 300
NONCES_IN_MARK = 20
LOST_KEPT = 100
CLOCKS_DIFFER_MS = 60_000
"""Wall clocks of a cluster are at most so far apart."""
AFTER = 1 << 53
"""Added to a nonce, it stands for what came after that nonce. No controller draws such a number."""


def mark_of(image: ClusterImage) -> MetadataMark:
    """The mark of a process that has seen `image`."""
    return MetadataMark(image.revision, tuple([entry.nonce for entry in image.history.entries[-NONCES_IN_MARK:]]))


def mark_of_lost(image: ClusterImage) -> MetadataMark:
    """The mark of a process that knows that `image` is of a lost branch. No store has been through it, even if the branch got no
    entry of its own."""
    nonces = mark_of(image).nonces
    last = nonces[-1] if nonces else 0
    return MetadataMark(image.revision, (*nonces, AFTER + last)[-NONCES_IN_MARK:])


def went_back(old: ClusterImage, new: ClusterImage, listed: RangeResult) -> bool:
    """Whether the store, which `new` shows as it was listed, has not been through `old`: it was restored from a backup, and
    perhaps written past the revision of `old` since. Both images must be of the store's own.

    A key that nobody wrote since must have the same revision. Where all keys of the lost branch were written anew, an epoch that
    fell or a topic that nobody deleted tells.
    """
    seen = old.revision
    if new.revision < seen or lost_nonces(new, mark_of(old)):
        return True
    if any(item.mod_revision <= seen and item.mod_revision != old.mod_revision(item.key) for item in listed.items):
        return True
    deleted = new.mod_revision(keys.DELETIONS) > seen
    if not deleted and any(topic_id not in new.topics_by_id for topic_id in old.topics_by_id):
        return True
    return any(_fell(change, deleted=deleted) for change in new.partition_changes_since(old))


def _fell(change: PartitionChange, *, deleted: bool) -> bool:
    before, after = change.before, change.after
    if before is None:
        return False
    if after is None:
        return not deleted
    return after.leader_epoch < before.leader_epoch or after.partition_epoch < before.partition_epoch


def lost_nonces(image: ClusterImage, mark: MetadataMark) -> tuple[int, ...]:
    """The nonces of `mark` that the store of `image` lacks; () if it has been through all that the mark has seen.

    The store drops old entries. A mark that is older than all of them passes.
    """
    entries = image.history.entries
    known = {entry.nonce for entry in entries}
    if not mark.nonces or mark.nonces[-1] in known:
        return ()
    if len(entries) >= ENTRIES_KEPT and mark.revision <= entries[0].revision:
        return ()
    return tuple([nonce for nonce in mark.nonces if nonce not in known])


def unanswered(image: ClusterImage, marks: Iterable[MetadataMark]) -> tuple[int, ...]:
    """The nonces of marks that the store has not been through, and that no controller has answered yet.

    One answer holds for a whole branch: marks of one branch share nonces.
    """
    answered = set(image.history.lost)
    found: list[int] = []
    for mark in marks:
        lost = lost_nonces(image, mark)
        if answered.isdisjoint(lost):
            found += lost
    return tuple(found)


def next_history(image: ClusterImage, nonce: int, lost: Sequence[int] = (), *, now_ms: int = 0) -> MetadataHistory:
    """The history with one more entry, and with lost nonces that are answered now."""
    history = image.history
    entries = (*history.entries, HistoryEntry(nonce, image.revision))
    restored_ms = max(now_ms, history.restored_ms) if lost else history.restored_ms
    return MetadataHistory(entries[-ENTRIES_KEPT:], (*history.lost, *lost)[-LOST_KEPT:], restored_ms)


def is_surely_deleted(restored_ms: int, known_ms: int) -> bool:
    """Whether something that the metadata lack was deleted. It was there at `known_ms`, by the clock of whoever knew it.

    A store that was restored or rebuilt since (`MetadataHistory.restored_ms`) lacks what is newer than its backup. A rebuild may
    still bring that back.
    """
    return not restored_ms or known_ms > restored_ms + CLOCKS_DIFFER_MS
