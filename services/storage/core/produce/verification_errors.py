"""What a coordinator's answer about a transaction means for the producer (KIP-890). No I/O.

Producers retry NOT_ENOUGH_REPLICAS without looking for another leader, so it stands for a coordinator that cannot answer now.
"""

from typing import Final

from libs.wire.errors import ErrorCode

FIRST_WITH_ABORTABLE: Final = 11
"""The version of Produce from which on clients know TRANSACTION_ABORTABLE."""
FIRST_THAT_ADDS: Final = 12
"""The version of Produce from which on leaders add partitions to transactions, and clients do not."""

UNAVAILABLE: Final = frozenset(
    (
        int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        int(ErrorCode.COORDINATOR_NOT_AVAILABLE),
        int(ErrorCode.NOT_COORDINATOR),
    )
)
"""The coordinator cannot answer now, or another one can."""
CONCURRENT: Final = int(ErrorCode.CONCURRENT_TRANSACTIONS)
"""The markers of the producer's last transaction are being written."""


def producers_error(error: int, produce_version: int) -> int:
    """The error for a producer with that version of Produce, after a coordinator's error."""
    if error in UNAVAILABLE:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if error == CONCURRENT:
        return CONCURRENT if produce_version >= FIRST_THAT_ADDS else ErrorCode.NOT_ENOUGH_REPLICAS
    if error == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error == ErrorCode.TRANSACTION_ABORTABLE:
        return not_in_transaction(produce_version)
    return error


def not_in_transaction(produce_version: int) -> int:
    """The error of a batch that belongs to no transaction."""
    return ErrorCode.TRANSACTION_ABORTABLE if produce_version >= FIRST_WITH_ABORTABLE else ErrorCode.INVALID_TXN_STATE
