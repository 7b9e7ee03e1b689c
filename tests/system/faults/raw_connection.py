"""A raw Kafka connection for the length of a `with`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.gateway.kafka_client import RawClient


@asynccontextmanager
async def raw_client(port: int) -> AsyncIterator[RawClient]:
    client = await RawClient.connect(port)
    try:
        yield client
    finally:
        await client.close()
