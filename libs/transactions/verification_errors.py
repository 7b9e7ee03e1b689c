"""What a coordinator's answer about a transaction means for the client (KIP-890). No I/O.

Producers retry NOT_ENOUGH_REPLICAS without looking for another leader, so it stands for a coordinator that cannot answer now.
"""

from typing import Final, NamedTuple

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


class Participant(NamedTuple):
    """A client that writes records or offsets in transactions, as the version of its request tells."""

    knows_abortable: bool
    """Whether it knows TRANSACTION_ABORTABLE."""
    leaves_adding: bool
    """Whether it leaves it to the partition's owner to add the partition to the transaction."""
    retried_error: ErrorCode
    """An error after which it sends the same request to the same broker again."""


def producer(produce_version: int) -> Participant:
    """A client that sends Produce in that version."""
    return Participant(produce_version >= FIRST_WITH_ABORTABLE, produce_version >= FIRST_THAT_ADDS, ErrorCode.NOT_ENOUGH_REPLICAS)


def offsets_committer(version: int) -> Participant:
    """A client that sends TxnOffsetCommit in that version."""
    return Participant(version >= 4, version >= 5, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def clients_error(error: int, client: Participant) -> int:
    """The error for a client, after a coordinator's error."""
    if error in UNAVAILABLE:
        return client.retried_error
    if error == CONCURRENT:
        return CONCURRENT if client.leaves_adding else client.retried_error
    if error == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error == ErrorCode.TRANSACTION_ABORTABLE:
        return not_in_transaction(client)
    return error


def not_in_transaction(client: Participant) -> int:
    """The error of what belongs to no transaction."""
    return ErrorCode.TRANSACTION_ABORTABLE if client.knows_abortable else ErrorCode.INVALID_TXN_STATE
