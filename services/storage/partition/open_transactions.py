"""The transactions that hold back a partition's last stable offset: which they are, and whether one takes too long (KIP-664)."""

from typing import Final

from services.storage.partition.partition import Partition

LATE_AFTER_MS: Final = 300_000
"""How much longer than `transaction.max.timeout.ms` a transaction may be open, as in Kafka. Then nobody will end it."""
SHOWN_MAX: Final = 20
LOOKED_AT_MAX: Final = 1000
"""The open transactions at which a scrape of metrics looks, those that began first: a client may open any number."""


def shown(partition: Partition) -> list[dict[str, int]]:
    """The open transactions that began first, for the admin port. Timestamps are in ms, of the producer's last batch here."""
    producers = partition.log.producers
    return [
        {
            "producer_id": producer_id,
            "producer_epoch": (entry := producers.entries[producer_id]).epoch,
            "first_offset": first_offset,
            "last_timestamp_ms": entry.last_timestamp,
            "coordinator_epoch": entry.coordinator_epoch,
        }
        for first_offset, producer_id in producers.transactions.oldest(SHOWN_MAX)
    ]


def has_late_one(partition: Partition, now_ms: int, timeout_ms_max: int) -> bool:
    """As in Kafka, a transaction is as old as its producer's last batch here says. One without a timestamp is not late."""
    producers = partition.log.producers
    oldest = now_ms - timeout_ms_max - LATE_AFTER_MS
    looked_at = producers.transactions.oldest(LOOKED_AT_MAX)
    return any(0 < producers.entries[producer_id].last_timestamp < oldest for _, producer_id in looked_at)
