"""The content of a metadata store that is written anew from saved metadata.

Saved metadata is older than what the cluster did last. So all partitions are in doubt from the start, as in a store that went
back in time (`doubt.py`): each waits for the logs of its replicas, and the most complete one leads. Producer ids are skipped.
"""

from dataclasses import replace

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.records import HistoryEntry, MetadataHistory
from libs.cluster.saved_metadata import SavedMetadata
from services.controller.core.elections.doubt import PRODUCER_IDS_SKIPPED, in_doubt

Values = dict[str, bytes]
"""By key."""


def restored(saved: SavedMetadata, *, now_ms: int) -> Values:
    """The content of a store that is restored from `saved` alone. What later versions saved stays as it is."""
    image = saved.image
    values = {item.key: item.value for item in saved.items}
    for topic_id, index, state in image.states():
        values[keys.partition(topic_id, index)] = encode(in_doubt(state))
    return values | restart_of_counters(image.history, image.next_producer_id, now_ms)


def restart_of_counters(history: MetadataHistory, next_producer_id: int, now_ms: int) -> Values:
    """The history, and the next producer id, none of which was given away.

    The new store's revisions begin again, so those in the history mean nothing there. Revision 0 is older than all of them: no
    mark then passes for one that the history has forgotten (`metadata_history.py`).
    """
    entries = tuple([HistoryEntry(entry.nonce, 0) for entry in history.entries])
    return {
        keys.HISTORY: encode(replace(history, entries=entries, restored_ms=now_ms)),
        keys.PRODUCER_IDS: encode(next_producer_id + PRODUCER_IDS_SKIPPED),
    }
