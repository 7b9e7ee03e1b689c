"""A record of each kind, with every field set somewhere and left out somewhere."""

from dataclasses import replace

from services.transaction_coordinator.core.states import State
from services.transaction_coordinator.core.transaction import (
    NO_EPOCH,
    Producer,
    Record,
    Transaction,
    TransactionChanged,
    TransactionRemoved,
)

UNDER_WAY = Transaction(
    "an-id", Producer(1000, 7), NO_EPOCH, state=State.ONGOING, timeout_ms=60_000,
    partitions=frozenset({("b", 3), ("a", 1), ("a", 0)}), started_ms=1_700_000_000_000,
    updated_ms=1_700_000_000_100, client_version=2,
)  # fmt: skip
SAMPLES: list[Record] = [
    TransactionChanged(Transaction("an-id", Producer(1000, 0), timeout_ms=60_000, updated_ms=1_700_000_000_000)),
    TransactionChanged(UNDER_WAY),
    TransactionChanged(replace(UNDER_WAY, state=State.PREPARE_COMMIT, producer=Producer(1000, 32767), next_producer_id=2000)),
    TransactionChanged(replace(UNDER_WAY, state=State.PREPARE_ABORT, last_epoch=6)),
    TransactionChanged(
        replace(
            UNDER_WAY, state=State.COMPLETE_COMMIT, producer=Producer(2000, 0), previous_producer_id=1000, partitions=frozenset()
        )
    ),
    TransactionChanged(replace(UNDER_WAY, state=State.COMPLETE_ABORT, partitions=frozenset(), client_version=0)),
    TransactionRemoved("an-id"),
]
