"""Produce, through a real gateway to storage nodes that speak the real RPC."""

import gc

import pytest

from libs.wire.errors import ErrorCode
from libs.wire.record_batches.records import Record, build_batch
from services.gateway.appends.batch import Batch
from services.gateway.exchange.exchange import Exchange
from tests.gateway.conftest import TOPIC, TOPIC_ID, Rig
from tests.gateway.kafka_client import PRODUCE, frame, produce_body, read_produced
from tests.gateway.produce_requests import BATCH, idempotent
from tests.support.polling import until

VERSIONS = range(3, 14)


def numbered(number: int) -> bytes:
    return bytes(build_batch([Record(None, str(number).encode())]))


def name_of(version: int) -> str | bytes:
    return TOPIC_ID if version >= 13 else TOPIC


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_version_stores_a_batch_and_says_where(rig: Rig, version: int) -> None:
    await rig.start()
    client = await rig.client(1)
    for offset in range(3):
        (produced,) = await client.produce(version, produce_body(version, [(name_of(version), [(0, BATCH)])]))
        assert (produced.error, produced.base_offset) == (0, offset)
    assert rig.nodes[1].stored == [(0, BATCH)] * 3


async def test_one_request_goes_to_each_leader_once(rig: Rig) -> None:
    await rig.start()
    client = await rig.client(1)
    body = produce_body(9, [(TOPIC, [(2, numbered(2)), (0, numbered(0)), (1, numbered(1))])])
    produced = await client.produce(9, body)
    assert [(p.index, p.error) for p in produced] == [(2, 0), (0, 0), (1, 0)]
    assert rig.nodes[1].stored == [(0, numbered(0)), (1, numbered(1))]
    assert rig.nodes[2].stored == [(2, numbered(2))]
    assert [len(node.appends) for node in rig.nodes.values()] == [1, 1]


async def test_answers_leave_in_request_order_whatever_the_nodes_do(rig: Rig) -> None:
    await rig.start()
    client = await rig.client(1)
    node = rig.nodes[1]
    node.holding = True
    for number in range(5):
        client.ask(PRODUCE, 9, produce_body(9, [(TOPIC, [(number % 2, numbered(number))])]), correlation_id=number)
        await until(lambda expected=number + 1: len(node.held) == expected)  # type: ignore[misc]
    assert node.stored == [(number % 2, numbered(number)) for number in range(5)], "first in, first out"
    for _ in range(5):
        node.release(len(node.held) - 1)
    assert [(await client.answer(PRODUCE, 9))[0] for _ in range(5)] == list(range(5))


async def test_requests_for_one_partition_that_come_together_leave_together(rig: Rig) -> None:
    await rig.start()
    client = await rig.client(1)
    await client.produce(9, produce_body(9, [(TOPIC, [(0, BATCH)])]))  # its template is known from now on
    requests = [frame(PRODUCE, 9, number, produce_body(9, [(TOPIC, [(number % 2, numbered(number))])])) for number in range(10)]
    client.send(b"".join(requests))
    for number in range(10):
        correlation_id, reader = await client.answer(PRODUCE, 9)
        (produced,) = read_produced(reader, 9)[0]
        assert (correlation_id, produced.index, produced.error) == (number, number % 2, 0)
        assert produced.base_offset == number // 2 + (number % 2 == 0)
    assert [len(append.partitions) for append in rig.nodes[1].appends] == [1, 5, 5]


async def test_nothing_of_an_answered_request_is_left_for_the_garbage_collector(rig: Rig) -> None:
    """A cycle would hold a receive buffer of 256 KB."""
    await rig.start()
    client = await rig.client(1)
    for partition in (0, 0, 9, 0):  # learnt, matched, refused, matched
        await client.produce(9, produce_body(9, [(TOPIC, [(partition, BATCH)])]))
    gc.collect()
    gc.disable()
    try:
        for _ in range(10):
            await client.produce(9, produce_body(9, [(TOPIC, [(0, BATCH)])]))
        left = [thing for thing in gc.get_objects() if isinstance(thing, Exchange | Batch)]
    finally:
        gc.enable()
    assert left == []


async def test_pipelined_requests_of_many_reads_keep_their_order(rig: Rig) -> None:
    await rig.start()
    client = await rig.client(1)
    sent = [(number % 3, numbered(number) * 1) for number in range(300)]
    for number, (partition, batch) in enumerate(sent):
        client.ask(PRODUCE, 9, produce_body(9, [(TOPIC, [(partition, batch)])]), correlation_id=number)
    for number in range(300):
        correlation_id, reader = await client.answer(PRODUCE, 9)
        assert correlation_id == number
        assert read_produced(reader, 9)[0][0].error == 0
    for partition in range(3):
        stored = [batch for node in rig.nodes.values() for index, batch in node.stored if index == partition]
        assert stored == [batch for index, batch in sent if index == partition]


async def test_acks_0_gets_no_answer_and_the_next_request_does(rig: Rig) -> None:
    await rig.start()
    client = await rig.client(1)
    client.ask(PRODUCE, 9, produce_body(9, [(TOPIC, [(0, BATCH)])], acks=0), correlation_id=1)
    client.ask(PRODUCE, 9, produce_body(9, [(TOPIC, [(0, BATCH)])]), correlation_id=2)
    assert (await client.answer(PRODUCE, 9))[0] == 2
    assert len(rig.nodes[1].stored) == 2


async def test_an_error_with_acks_0_closes_the_connection(rig: Rig) -> None:
    await rig.start()
    client = await rig.client(1)
    client.ask(PRODUCE, 9, produce_body(9, [("nowhere", [(0, BATCH)])], acks=0))
    assert await client.ended()
    assert rig.closed("acks-0") == 1


# Bad input


async def test_row_18_acks_of_7_are_refused(rig: Rig) -> None:
    await rig.start()
    (produced,) = await (await rig.client(1)).produce(9, produce_body(9, [(TOPIC, [(0, BATCH)])], acks=7))
    assert (produced.error, produced.base_offset) == (ErrorCode.INVALID_REQUIRED_ACKS, -1)
    assert rig.nodes[1].stored == []


@pytest.mark.parametrize("records", [None, b""])
async def test_row_21_no_batch_in_a_partition_is_refused(rig: Rig, records: bytes | None) -> None:
    await rig.start()
    body = produce_body(9, [(TOPIC, [(0, records), (1, BATCH)])])
    empty, whole = await (await rig.client(1)).produce(9, body)
    assert empty.error == ErrorCode.INVALID_RECORD
    assert whole.error == 0


async def test_a_refusal_of_the_leader_reaches_the_client(rig: Rig) -> None:
    await rig.start()
    rig.nodes[1].refuse_with = ErrorCode.INVALID_RECORD
    (produced,) = await (await rig.client(1)).produce(9, produce_body(9, [(TOPIC, [(0, BATCH + BATCH)])]))
    assert produced.error == ErrorCode.INVALID_RECORD


async def test_row_28_zstd_before_version_7_is_refused(rig: Rig) -> None:
    await rig.start()
    zstd = bytearray(BATCH)
    zstd[22] = 4
    for version, error in ((6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (7, 0)):
        (produced,) = await (await rig.client(1)).produce(version, produce_body(version, [(TOPIC, [(0, bytes(zstd))])]))
        assert produced.error == error


@pytest.mark.parametrize("name", ["..", "a/b", "a\0b", "x" * 250, "nowhere"])
async def test_row_37_a_topic_that_cannot_be_is_unknown(rig: Rig, name: str) -> None:
    await rig.start()
    (produced,) = await (await rig.client(1)).produce(9, produce_body(9, [(name, [(0, BATCH)])]))
    assert produced.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_an_unknown_partition_and_an_unknown_topic_id_have_their_own_errors(rig: Rig) -> None:
    await rig.start()
    client = await rig.client(1)
    body = produce_body(9, [(TOPIC, [(3, BATCH), (-1, BATCH)])])
    assert {p.error for p in await client.produce(9, body)} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    body = produce_body(13, [(b"\7" * 16, [(0, BATCH)])])
    assert [p.error for p in await client.produce(13, body)] == [ErrorCode.UNKNOWN_TOPIC_ID]


async def test_row_41_no_client_writes_internal_topics(rig: Rig) -> None:
    await rig.start()
    client = await rig.client(1)
    body = produce_body(9, [("__consumer_offsets", [(0, BATCH)])])
    assert (await client.produce(9, body))[0].error == ErrorCode.INVALID_TOPIC_EXCEPTION
    client.ask(PRODUCE, 9, body, client_id=b"__admin_client")
    assert read_produced((await client.answer(PRODUCE, 9))[1], 9)[0][0].error == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_a_partition_named_twice_is_stored_neither_time(rig: Rig) -> None:
    await rig.start()
    body = produce_body(9, [(TOPIC, [(0, numbered(1)), (1, BATCH)]), (TOPIC, [(0, numbered(2))])])
    produced = await (await rig.client(1)).produce(9, body)
    assert [p.error for p in produced] == [ErrorCode.INVALID_REQUEST, 0, ErrorCode.INVALID_REQUEST]
    assert rig.nodes[1].stored == [(1, BATCH)]


async def test_a_transactional_batch_names_its_transaction_and_what_its_client_knows(rig: Rig) -> None:
    await rig.start()
    client = await rig.client(1)
    transactional = bytearray(idempotent(0))
    transactional[22] |= 0x10
    for version, transactional_id, error in (
        (9, None, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (9, "mine", 0),
        (12, "mine", 0),
    ):
        body = produce_body(version, [(TOPIC, [(0, bytes(transactional))])], transactional_id=transactional_id)
        assert [p.error for p in await client.produce(version, body)] == [error]
    assert [(append.transactional_id, append.produce_version) for append in rig.nodes[1].appends] == [("mine", 9), ("mine", 12)]
