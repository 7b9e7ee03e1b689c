"""Metadata requests without topics, for the brokers alone."""

from tests.gateway.kafka_client import METADATA, RawClient

NO_TOPICS = bytes(4)


async def brokers(client: RawClient) -> dict[int, int]:
    """The port of each broker, as the gateway names it."""
    client.ask(METADATA, 1, NO_TOPICS)
    _, reader = await client.answer(METADATA, 1)
    ports = {}
    for _ in range(reader.int32()):
        node_id, _, port, _ = reader.int32(), reader.string(False), reader.int32(), reader.nullable_string(False)
        ports[node_id] = port
    return ports
