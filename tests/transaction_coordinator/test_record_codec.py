"""Records of `__transaction_state`: what is written is read again, and what cannot be read is refused."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.transaction_coordinator.core import record_codec
from services.transaction_coordinator.core.states import State
from services.transaction_coordinator.core.transaction import Producer, Transaction, TransactionChanged, TransactionRemoved
from tests.transaction_coordinator.sample_records import SAMPLES, UNDER_WAY

WRITTEN_STATES = [state for state in State if state is not State.DEAD]

producer_ids = st.integers(-1, 2**63 - 1)
producers = st.builds(Producer, st.integers(0, 2**63 - 1), st.integers(0, 32767))
partitions = st.frozensets(st.tuples(st.text(min_size=1, max_size=8), st.integers(0, 2**31 - 1)), max_size=6)
times = st.integers(-1, 2**62)
transactions = st.builds(
    Transaction,
    st.text(min_size=1, max_size=20),
    producers,
    last_epoch=st.integers(-1, 32767),
    previous_producer_id=producer_ids,
    next_producer_id=producer_ids,
    state=st.sampled_from(WRITTEN_STATES),
    timeout_ms=st.integers(0, 2**31 - 1),
    partitions=partitions,
    started_ms=times,
    updated_ms=times,
    client_version=st.integers(0, 2),
)


@given(transactions)
def test_what_is_written_is_read_again(transaction: Transaction) -> None:
    if transaction.state is State.EMPTY:
        transaction = replace(transaction, partitions=frozenset())
    changed = TransactionChanged(transaction)
    assert record_codec.decode(*record_codec.encode(changed)) == changed


def test_a_tombstone_is_read_again() -> None:
    removed = TransactionRemoved("an-id")
    assert record_codec.decode(*record_codec.encode(removed)) == removed


def test_the_first_version_of_values_is_read() -> None:
    value = bytes.fromhex(
        "0000 00000000000003e8 0007 0000ea60 01 00000001 0001 61 00000002 00000000 00000001 0000018bcfe56864 0000018bcfe56800"
    )
    changed = record_codec.decode(record_codec.encode(SAMPLES[0]).key, value)
    assert changed == TransactionChanged(
        replace(UNDER_WAY, partitions=frozenset({("a", 0), ("a", 1)}), client_version=0, started_ms=1_700_000_000_000)
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\0", None),
        (b"\0\0\0\5id", None),
        (b"\0\0\0\2id", b""),
        (b"\0\0\0\2id", b"\0\2"),
        (b"\0\0\0\2id", record_codec.encode(SAMPLES[1]).value[:-3]),  # type: ignore[index]
        (b"\0\0\0\2id", record_codec.encode(SAMPLES[0]).value + b"\0"),  # type: ignore[operator]
        (b"\0\0\0\2id", bytes.fromhex("0001 00000000000003e8 0007 0000ea60 08 00 0000000000000000 0000000000000000 00")),
        (b"\0\0\0\2id", bytes.fromhex("0001 00000000000003e8 0007 0000ea60 06 00 0000000000000000 0000000000000000 00")),
    ],
)
def test_bytes_that_cannot_be_read_are_refused(key: bytes, value: bytes | None) -> None:
    with pytest.raises(ValueError):
        record_codec.decode(key, value)


def test_another_kind_of_record_is_unknown() -> None:
    assert record_codec.decode(b"\0\1\0\2id", b"anything") is None


def test_an_id_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError):
        record_codec.encode(TransactionRemoved("x" * 32768))
