"""What tells a simulated producer's transactions and batches apart, also in the log."""

from typing import NamedTuple


class Label(NamedTuple):
    """One transaction: the number of the producer's instance, and the transaction's number in it."""

    instance: int
    transaction: int


class BatchName(NamedTuple):
    label: Label
    number: int

    def value(self) -> bytes:
        return b"%d.%d.%d" % (*self.label, self.number)


def name_in(value: bytes) -> BatchName:
    instance, transaction, number = map(int, value.split(b"."))
    return BatchName(Label(instance, transaction), number)
