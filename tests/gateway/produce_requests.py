"""Produce requests of one partition, and readers of their answers."""

from libs.wire.record_batches.records import Record, build_batch
from tests.gateway.conftest import TOPIC
from tests.gateway.fake_node import FakeNode
from tests.gateway.kafka_client import PRODUCE, RawClient, produce_body, read_produced
from tests.support.polling import until

BATCH = bytes(build_batch([Record(None, b"one")]))


def idempotent(number: int) -> bytes:
    return bytes(build_batch([Record(None, str(number).encode())], producer_id=7, producer_epoch=0, base_sequence=number))


def plain(number: int) -> bytes:
    return bytes(build_batch([Record(None, str(number).encode())]))


def ask(client: RawClient, number: int, batch: bytes, *, partition: int = 0, timeout_ms: int = 20_000, version: int = 9) -> None:
    body = produce_body(version, [(TOPIC, [(partition, batch)])], timeout_ms=timeout_ms)
    client.ask(PRODUCE, version, body, correlation_id=number)


async def ask_in_turn(client: RawClient, node: FakeNode, *batches: bytes) -> None:
    """Sends the batches one by one. The node holds each before the next is sent, so each is an RPC of its own."""
    node.holding = True
    for number, batch in enumerate(batches):
        ask(client, number, batch)
        await until(lambda expected=number + 1: len(node.held) == expected)  # type: ignore[misc]


async def error_of(client: RawClient, number: int) -> int:
    correlation_id, reader = await client.answer(PRODUCE, 9)
    assert correlation_id == number
    return read_produced(reader, 9)[0][0].error


PRODUCE_ONE = produce_body(9, [(TOPIC, [(0, BATCH)])])


async def serves(client: RawClient) -> bool:
    (produced,) = await client.produce(9, PRODUCE_ONE)
    return produced.error == 0
