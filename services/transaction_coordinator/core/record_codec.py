"""The codec of records in `__transaction_state`: it writes the bytes that Kafka 4.2 writes, and reads all that it reads.

A key is the number of its kind, 0, and the transactional id. TransactionLogValue 1 has compact encodings and tagged fields, which
Kafka writes from `transaction.version` 1 on. Partitions are null in the state Empty.

One tagged field is our own: the last epoch. Without it a retry after a failover looks like a zombie (KAFKA-20357). Kafka skips
tags that it does not know. This one is far from those that it has given away.
"""

import struct
from itertools import groupby
from typing import Final

from libs.coordinator.core.decisions import KeyValue
from libs.coordinator.core.record_writer import RecordWriter
from libs.wire.primitives import ProtocolError, Reader, Writer
from services.transaction_coordinator.core.states import BY_NUMBER, State
from services.transaction_coordinator.core.transaction import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    Producer,
    Record,
    TopicPartition,
    Transaction,
    TransactionChanged,
    TransactionRemoved,
)

TRANSACTION: Final = 0
"""The only kind of record."""
VALUE_VERSION: Final = 1
_PREVIOUS_PRODUCER_ID, _NEXT_PRODUCER_ID, _CLIENT_VERSION, _LAST_EPOCH = 0, 1, 2, 1000
_DEFAULTS: Final = {
    _PREVIOUS_PRODUCER_ID: NO_PRODUCER_ID,
    _NEXT_PRODUCER_ID: NO_PRODUCER_ID,
    _CLIENT_VERSION: 0,
    _LAST_EPOCH: NO_EPOCH,
}
_SHORT: Final = (_CLIENT_VERSION, _LAST_EPOCH)


def encode(record: Record) -> KeyValue:
    """The record as key and value. Raises ValueError for values that do not fit."""
    try:
        if isinstance(record, TransactionRemoved):
            return KeyValue(_key(record.transactional_id), None)
        return KeyValue(_key(record.transaction.transactional_id), _value(record.transaction))
    except struct.error as error:
        raise ValueError(f"{type(record).__name__} does not fit its format: {error}") from None


def decode(key: bytes, value: bytes | None) -> Record | None:
    """The record of a key and value; None for an unknown kind. Raises ValueError for bytes that cannot be read."""
    try:
        reader = Reader(memoryview(key))
        if reader.int16() != TRANSACTION:
            return None
        transactional_id = reader.string(False)
        reader.expect_end()
        if value is None:
            return TransactionRemoved(transactional_id)
        return TransactionChanged(_read(transactional_id, Reader(memoryview(value))))
    except ProtocolError as error:
        raise ValueError(f"not a record of __transaction_state: {error}") from error


def _key(transactional_id: str) -> bytes:
    writer = RecordWriter()
    writer.int16(TRANSACTION)
    writer.string(transactional_id, False)
    return bytes(writer.buffer)


def _value(transaction: Transaction) -> bytes:
    writer = RecordWriter()
    writer.int16(VALUE_VERSION)
    writer.int64(transaction.producer.producer_id)
    writer.int16(transaction.producer.epoch)
    writer.int32(transaction.timeout_ms)
    writer.int8(transaction.state.number)
    if transaction.state is State.EMPTY:
        writer.array_length(-1, True)
    else:
        _write_partitions(writer, transaction.partitions)
    writer.int64(transaction.updated_ms)
    writer.int64(transaction.started_ms)
    tagged: list[tuple[int, Writer]] = []
    for tag, value in (
        (_PREVIOUS_PRODUCER_ID, transaction.previous_producer_id),
        (_NEXT_PRODUCER_ID, transaction.next_producer_id),
        (_CLIENT_VERSION, transaction.client_version),
        (_LAST_EPOCH, transaction.last_epoch),
    ):
        if value != _DEFAULTS[tag]:
            field = Writer()
            (field.int16 if tag in _SHORT else field.int64)(value)
            tagged.append((tag, field))
    writer.tagged_fields(tagged)
    return bytes(writer.buffer)


def _write_partitions(writer: Writer, partitions: frozenset[TopicPartition]) -> None:
    topics = [(topic, [index for _, index in group]) for topic, group in groupby(sorted(partitions), lambda item: item[0])]
    writer.array_length(len(topics), True)
    for topic, indexes in topics:
        writer.string(topic, True)
        writer.array(indexes, True, Writer.int32)
        writer.no_tagged_fields()


def _read(transactional_id: str, reader: Reader) -> Transaction:
    version = reader.int16()
    if version not in (0, 1):
        raise ValueError(f"TransactionLogValue: version {version}, not 0 to {VALUE_VERSION}")
    flexible = version >= 1
    producer = Producer(reader.int64(), reader.int16())
    timeout_ms = reader.int32()
    number = reader.int8()
    if number not in BY_NUMBER or BY_NUMBER[number] is State.DEAD:
        raise ValueError(f"state {number} of a transaction")
    partitions = _read_partitions(reader, flexible)
    updated_ms, started_ms = reader.int64(), reader.int64()
    tags = dict(_DEFAULTS)
    if flexible:
        for tag, field in reader.tagged_fields():
            if tag in tags:
                tags[tag] = field.int16() if tag in _SHORT else field.int64()
                field.expect_end()
    reader.expect_end()
    return Transaction(
        transactional_id,
        producer,
        last_epoch=tags[_LAST_EPOCH],
        previous_producer_id=tags[_PREVIOUS_PRODUCER_ID],
        next_producer_id=tags[_NEXT_PRODUCER_ID],
        state=BY_NUMBER[number],
        timeout_ms=timeout_ms,
        partitions=partitions,
        started_ms=started_ms,
        updated_ms=updated_ms,
        client_version=tags[_CLIENT_VERSION],
    )


def _read_partitions(reader: Reader, flexible: bool) -> frozenset[TopicPartition]:
    partitions: set[TopicPartition] = set()
    for _ in range(max(0, reader.nullable_array_length(flexible))):
        topic = reader.string(flexible)
        partitions.update((topic, index) for index in reader.array(flexible, Reader.int32))
        if flexible:
            reader.skip_tagged_fields()
    return frozenset(partitions)
