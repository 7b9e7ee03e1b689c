"""Kafka's names of the states of a transaction, as ListTransactions filters by them."""

from typing import Final

STATES: Final = frozenset(
    (
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    )
)
