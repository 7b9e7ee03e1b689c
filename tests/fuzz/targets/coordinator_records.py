"""Records of both internal topics, and what consumers of classic groups send through their coordinator.

Byte 0: the decoder. Byte 1: the length of the key, 255 for a value of null. The rest is the key, then the value.
"""

from collections.abc import Iterator

from libs.wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    read_assignment,
    read_subscription,
    version_of,
    write_assignment,
    write_subscription,
)
from libs.wire.primitives import ProtocolError
from libs.wire.record_batches.keyed_batches import TransactionalBatch
from services.group_coordinator.core.record_formats import record_codec as groups
from services.transaction_coordinator.core import record_codec as transactions
from services.transaction_coordinator.core.states import State
from services.transaction_coordinator.core.transaction import TransactionChanged
from tests.group_coordinator.sample_records import SAMPLES, written
from tests.transaction_coordinator import sample_records

_PLAIN, _TRANSACTIONAL, _MARKER, _TRANSACTION, _SUBSCRIPTION, _ASSIGNMENT = range(6)
_OF_A_GROUP = {
    _PLAIN: None,
    _TRANSACTIONAL: TransactionalBatch(7, 1),
    _MARKER: TransactionalBatch(7, 1, is_marker=True),
}
_NULL = 255


def check(data: bytes) -> None:
    if len(data) < 2:
        return
    kind, length, rest = data[0] % 6, data[1], data[2:]
    key, value = (rest, None) if length == _NULL else (rest[:length], rest[length:])
    if kind in _OF_A_GROUP:
        _check_group(key, value, _OF_A_GROUP[kind])
    elif kind == _TRANSACTION:
        _check_transaction(key, value)
    elif kind == _SUBSCRIPTION:
        _check_subscription(rest)
    else:
        _check_assignment(rest)


def _check_group(key: bytes, value: bytes | None, transaction: TransactionalBatch | None) -> None:
    try:
        record = groups.decode(key, value, transaction)
    except ValueError:
        return
    if record is None:
        return
    again = groups.encode(record)
    assert again is not None
    assert groups.decode(*again, transaction) == record, record


def _check_transaction(key: bytes, value: bytes | None) -> None:
    try:
        record = transactions.decode(key, value)
    except ValueError:
        return
    if record is None:
        return
    again = transactions.decode(*transactions.encode(record))
    if isinstance(record, TransactionChanged) and record.transaction.state is State.EMPTY and record.transaction.partitions:
        assert isinstance(again, TransactionChanged), "an empty transaction has no partitions when it is written"
    else:
        assert again == record, record


def _check_subscription(data: bytes) -> None:
    try:
        subscription, version = read_subscription(data), version_of(data)
    except ProtocolError:
        return
    assert read_subscription(write_subscription(subscription, version)) == subscription
    assert read_subscription(data, 0).topics == subscription.topics


def _check_assignment(data: bytes) -> None:
    try:
        assignment = read_assignment(data)
    except ProtocolError:
        return
    assert read_assignment(write_assignment(assignment, version_of(data))) == assignment


def seeds() -> Iterator[bytes]:
    for record in SAMPLES:
        key, value = written(record)
        for kind in (_PLAIN, _TRANSACTIONAL):
            yield _seed(kind, key, value)
    for changed in sample_records.SAMPLES:
        yield _seed(_TRANSACTION, *transactions.encode(changed))
    yield _seed(_MARKER, b"\0\0\0\1", b"\0\0\0\0\0\7")
    owned = (TopicPartition("t", (0, 1)), TopicPartition("u", ()))
    for version in range(4):
        yield bytes((_SUBSCRIPTION, 0)) + write_subscription(
            ConsumerProtocolSubscription(("t", "u"), b"data", owned, 3, "rack"), version
        )
        yield bytes((_ASSIGNMENT, version)) + write_assignment(ConsumerProtocolAssignment(owned, None), version)


def _seed(kind: int, key: bytes, value: bytes | None) -> bytes:
    return bytes((kind, _NULL)) + key if value is None else bytes((kind, len(key))) + key + value
