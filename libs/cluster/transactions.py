"""Checks that every store adapter makes of a transaction before it sends it."""

from collections.abc import Sequence

from libs.cluster.store import MAX_OPERATIONS, Compare, Delete, Operation

MAX_BYTES = 1_000_000
"""The most bytes of keys and values in one transaction. etcd's limit is 1.5 MiB for the encoded request."""


class TransactionTooLarge(ValueError):
    pass


def check_transaction(compares: Sequence[Compare], operations: Sequence[Operation]) -> None:
    """Raises ValueError for a transaction that etcd refuses: one that is too large, or that writes a key twice.

    (etcd allows deletes to overlap deletes; a put may overlap nothing.)
    """
    if len(operations) > MAX_OPERATIONS or len(compares) > MAX_OPERATIONS:
        raise ValueError(f"{len(compares)} comparisons and {len(operations)} operations: at most {MAX_OPERATIONS} of each")
    size = sum(len(each.key) + (0 if isinstance(each, Delete) else len(each.value)) for each in operations)
    if size > MAX_BYTES:
        raise TransactionTooLarge(f"a transaction of {size} bytes: at most {MAX_BYTES}")
    puts: set[str] = set()
    for operation in operations:
        if not isinstance(operation, Delete):
            if operation.key in puts:
                raise ValueError(f"{operation.key} is written twice in one transaction")
            puts.add(operation.key)
    for operation in operations:
        if isinstance(operation, Delete):
            overlaps = any(key.startswith(operation.key) for key in puts) if operation.prefix else operation.key in puts
            if overlaps:
                raise ValueError(f"{operation.key} is both written and deleted in one transaction")
