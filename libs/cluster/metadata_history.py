"""The history of the metadata store: whether a store has been through what a process has seen of it.

A store that is restored from a backup goes back in time. Its revisions are given out again, so that a revision alone tells
nothing. Hence the active controller puts random numbers into a history, and each process keeps the newest of them as its mark. A
store that lacks the last number of a mark is another branch of history.

A process that runs meanwhile knows more than its mark: each key that nobody wrote since must be as its image has it.
"""

from collections.abc import Iterable

from libs.cluster.image import ClusterImage
from libs.cluster.records import HistoryEntry, MetadataHistory, MetadataMark
from libs.cluster.store import RangeResult

ENTRIES_KEPT = 300
NONCES_IN_MARK = 20
LOST_KEPT = 100
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


def went_back(image: ClusterImage, listed: RangeResult) -> bool:
    """Whether the store that was listed has not been through `image`: it was restored from a backup, and perhaps written past
    the image's revision since. The image must be of the store's own."""
    seen = image.revision
    return listed.revision < seen or any(
        item.mod_revision <= seen and item.mod_revision != image.mod_revision(item.key) for item in listed.items
    )


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


def next_history(image: ClusterImage, nonce: int, lost: Iterable[int] = ()) -> MetadataHistory:
    """The history with one more entry, and with lost nonces that are answered now."""
    history = image.history
    entries = (*history.entries, HistoryEntry(nonce, image.revision))
    return MetadataHistory(entries[-ENTRIES_KEPT:], (*history.lost, *lost)[-LOST_KEPT:])
