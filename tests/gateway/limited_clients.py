"""Clients with quotas: so small that any debt lasts for longer than a test."""

from libs.cluster import keys
from libs.cluster.records import ClientQuotas, QuotaEntity
from libs.cluster.store import Delete
from libs.wire.primitives import Reader
from services.gateway.net.connection import Connection
from services.gateway.requests.client_quotas import MUTED_S_MAX
from services.gateway.service import Gateway
from tests.gateway.conftest import TOPIC, Rig
from tests.gateway.fetch_requests import name_of
from tests.gateway.kafka_client import FETCH, PRODUCE, RawClient, fetch_body, produce_body, read_fetched
from tests.gateway.produce_requests import BATCH as SENT

PRODUCED, CONSUMED, WORKED = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
TINY = 1e-6
LIMITED, OTHER = b"limited", b"other"
LONGEST_MS = int(MUTED_S_MAX * 1000)


async def limit(rig: Rig, gateway: Gateway, quota: str, rate: float = TINY, client_id: bytes = LIMITED) -> None:
    await rig.put(keys.client_quotas(QuotaEntity(client_id=client_id.decode())), ClientQuotas({quota: rate}))
    assert await gateway.wait_for_revision(rig.store.keyspace.revision, 10)


async def unlimit(rig: Rig, gateway: Gateway, client_id: bytes = LIMITED) -> None:
    await rig.store.txn([], [Delete(keys.client_quotas(QuotaEntity(client_id=client_id.decode())))])
    assert await gateway.wait_for_revision(rig.store.keyspace.revision, 10)


def connections(gateway: Gateway) -> list[Connection]:
    return list(gateway.connections)


def muted(gateway: Gateway) -> list[bool]:
    return [connection.is_muted for connection in gateway.connections]


async def produced(client: RawClient, *, client_id: bytes = LIMITED, version: int = 9) -> int:
    """The throttle time of a Produce's answer, in ms."""
    client.ask(PRODUCE, version, produce_body(version, [(TOPIC, [(0, SENT)])]), client_id=client_id)
    _, reader = await client.answer(PRODUCE, version)
    at_end = 5 if version >= 9 else 4
    return Reader(reader.view[len(reader.view) - at_end :]).int32()


async def fetched(client: RawClient, version: int = 12, *, client_id: bytes = LIMITED) -> tuple[int, int, int]:
    """The throttle time of a Fetch's answer in ms, its error, and the bytes of its records."""
    client.ask(FETCH, version, fetch_body(version, [(name_of(version), [(0, 0)])]), client_id=client_id)
    _, reader = await client.answer(FETCH, version)
    throttle_time_ms = Reader(reader.view[reader.position :]).int32()
    error, found, _ = read_fetched(reader, version)
    return throttle_time_ms, error, sum(len(each.records) for each in found)
