"""ListOffsets for one partition, on a connection of its own protocol."""

from libs.wire.api_keys import ApiKey
from libs.wire.messages import list_offsets as wire
from libs.wire.primitives import Writer
from tests.gateway.conftest import TOPIC
from tests.gateway.kafka_client import RawClient

VERSION = 6
LIST_OFFSETS = int(ApiKey.LIST_OFFSETS)

Listed = tuple[int, int, int, int]
"""Error, offset, timestamp, leader epoch."""


def ask(client: RawClient, timestamp: int, *, isolation: int = 0, leader_epoch: int = -1) -> None:
    writer = Writer()
    writer.buffer += b"\0"
    partition = wire.ListOffsetsPartition(0, leader_epoch, timestamp)
    wire.write_request(writer, wire.ListOffsetsRequest(-1, isolation, [wire.ListOffsetsTopic(TOPIC, [partition])]), VERSION)
    client.ask(LIST_OFFSETS, VERSION, bytes(writer.buffer))


async def answer(client: RawClient) -> Listed:
    _, reader = await client.answer()
    reader.skip_tagged_fields()
    listed = wire.read_response(reader, VERSION).topics[0].partitions[0]
    return listed.error_code, listed.offset, listed.timestamp, listed.leader_epoch


async def look_up(client: RawClient, timestamp: int, *, isolation: int = 0, leader_epoch: int = -1) -> Listed:
    ask(client, timestamp, isolation=isolation, leader_epoch=leader_epoch)
    return await answer(client)
