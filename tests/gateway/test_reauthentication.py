"""Sessions that end (KIP-368): who authenticates again goes on, and whoever does not is closed."""

import asyncio
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from libs.cluster import keys
from libs.cluster.scram_credentials import SCRAM_SHA_256, SCRAM_SHA_512
from libs.cluster.store import Delete
from libs.wire.errors import ErrorCode
from libs.wire.messages import sasl_authenticate, sasl_handshake
from services.gateway.requests import authentication
from tests.compat.clients.kafka_python import KafkaProducer
from tests.gateway.conftest import TOPIC, Rig
from tests.gateway.kafka_client import API_VERSIONS, METADATA, RawClient
from tests.gateway.sasl_rig import (
    ALL,
    SASL_AT,
    SECRET,
    add,
    authenticate,
    closes,
    connect,
    handshake,
    is_served,
    last_answer,
    log_in,
    send_handshake,
    send_token,
    started,
)
from tests.support.polling import rounds, until

LONG, ENDED = 3600.0, 1e-9
"""Sessions that go on, and sessions that end at once."""


async def logged_in(rig: Rig, mechanism: str = SCRAM_SHA_256) -> RawClient:
    client = await connect(rig)
    assert await log_in(client, mechanism=mechanism) == 0
    return client


@pytest.mark.parametrize("mechanism", ALL)
async def test_a_client_hears_its_lifetime_and_authenticates_again_on_its_connection(rig: Rig, mechanism: str) -> None:
    gateway = await started(rig, reauthentication_s_max=LONG)
    client = await connect(rig)
    assert (await last_answer(client, mechanism=mechanism)).session_lifetime_ms == 3_600_000
    assert await is_served(client)
    assert (await last_answer(client, mechanism=mechanism)).session_lifetime_ms == 3_600_000
    assert await is_served(client)
    assert [connection.principal for connection in gateway.connections] == ["User:u"]
    meters = gateway.meters
    assert (meters.authentications, meters.reauthentications, meters.failed_reauthentications) == (1, 1, 0)


async def test_without_the_setting_sessions_do_not_end(rig: Rig) -> None:
    await started(rig)
    client = await connect(rig)
    assert (await last_answer(client)).session_lifetime_ms == 0
    assert (await handshake(client, SCRAM_SHA_256)).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert await is_served(client)


@pytest.mark.parametrize("api_key", [METADATA, API_VERSIONS])
async def test_a_request_after_the_end_closes(rig: Rig, api_key: int) -> None:
    gateway = await started(rig, reauthentication_s_max=ENDED)
    client = await logged_in(rig)
    client.ask(api_key, 1, b"\0\0\0\0")
    await closes(rig, client, "expired")
    assert len(gateway.connections) == 0


async def test_a_token_without_a_handshake_after_the_end_closes(rig: Rig) -> None:
    await started(rig, reauthentication_s_max=ENDED)
    client = await logged_in(rig)
    send_token(client, b"x")
    await closes(rig, client, "expired")


async def test_a_client_may_authenticate_again_after_the_end(rig: Rig) -> None:
    gateway = await started(rig, reauthentication_s_max=ENDED)
    client = await logged_in(rig)
    assert await log_in(client) == 0
    assert gateway.meters.reauthentications == 1


async def test_a_second_one_within_a_second_is_refused_and_changes_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authentication, "REAUTHENTICATION_S_MIN", LONG)
    await started(rig, reauthentication_s_max=LONG)
    client = await logged_in(rig)
    assert await log_in(client) == 0
    assert (await handshake(client, SCRAM_SHA_256)).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert (await authenticate(client, b"x")).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert await is_served(client)


async def test_another_user_is_denied_and_closed(rig: Rig) -> None:
    gateway = await started(rig, reauthentication_s_max=LONG)
    await add(rig, "v")
    client = await logged_in(rig)
    answer = await last_answer(client, "v")
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "Cannot change principals during re-authentication from User.u: User.v"
    await closes(rig, client, "authentication")
    meters = gateway.meters
    assert (meters.failed_authentications, meters.failed_reauthentications) == (0, 1)


async def test_another_mechanism_is_closed_at_its_token_as_by_kafka(rig: Rig) -> None:
    gateway = await started(rig, reauthentication_s_max=LONG)
    client = await logged_in(rig)
    assert (await handshake(client, SCRAM_SHA_512)).error_code == 0
    send_token(client, b"n,,n=u,r=nonce")
    await closes(rig, client, "authentication")
    assert gateway.meters.failed_reauthentications == 1


async def test_a_mechanism_that_is_not_enabled_closes(rig: Rig) -> None:
    await started(rig, reauthentication_s_max=LONG)
    client = await logged_in(rig)
    assert (await handshake(client, "GSSAPI")).error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    await closes(rig, client)


async def test_a_deleted_user_is_denied_when_it_authenticates_again(rig: Rig) -> None:
    gateway = await started(rig, reauthentication_s_max=LONG)
    client = await logged_in(rig)
    await rig.store.txn([], [Delete(keys.scram_credential(SCRAM_SHA_256, "u"))])
    credentials = gateway.credentials.current
    assert credentials is not None
    await until(lambda: credentials.get(SCRAM_SHA_256, "u") is None)
    assert await is_served(client)
    assert await log_in(client) == ErrorCode.SASL_AUTHENTICATION_FAILED
    await closes(rig, client, "authentication")


async def test_any_other_request_within_the_exchange_closes(rig: Rig) -> None:
    await started(rig, reauthentication_s_max=LONG)
    client = await logged_in(rig)
    assert (await handshake(client, SCRAM_SHA_256)).error_code == 0
    client.ask(METADATA, 1, b"\0\0\0\0")
    await closes(rig, client)


async def test_a_token_of_more_than_16_kib_closes(rig: Rig) -> None:
    await started(rig, reauthentication_s_max=LONG)
    client = await logged_in(rig)
    assert (await handshake(client, SCRAM_SHA_256)).error_code == 0
    send_token(client, bytes(16_384))
    await closes(rig, client, "frame")


async def test_requests_before_and_behind_it_are_answered(rig: Rig) -> None:
    """One segment: a request, a whole PLAIN exchange, and a request."""
    await started(rig, reauthentication_s_max=LONG)
    client = await logged_in(rig, "PLAIN")
    client.ask(METADATA, 1, b"\0\0\0\0", correlation_id=8)
    send_handshake(client, "PLAIN")
    send_token(client, f"\0u\0{SECRET}".encode())
    client.ask(METADATA, 1, b"\0\0\0\0", correlation_id=9)
    assert (await client.answer(METADATA, 1))[0] == 8
    assert sasl_handshake.read_response((await client.answer())[1], 1).error_code == 0
    assert sasl_authenticate.read_response((await client.answer())[1], 1).session_lifetime_ms == 3_600_000
    assert (await client.answer(METADATA, 1))[0] == 9


# --- real clients ---------------------------------------------------------------------------------------------------------

SESSION_S = 2.0
LOGIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": SCRAM_SHA_256}


def produce_by_librdkafka(bootstrap: str, is_over: Callable[[], bool]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, **LOGIN, "sasl.username": "u", "sasl.password": SECRET})
    for _ in rounds("a re-authentication"):
        producer.produce(TOPIC, b"x", partition=0)
        assert producer.flush(30) == 0
        if is_over():
            return
        producer.poll(0.05)


def produce_by_kafka_python(bootstrap: str, is_over: Callable[[], bool]) -> None:
    login = {"sasl_mechanism": SCRAM_SHA_256, "sasl_plain_username": "u", "sasl_plain_password": SECRET}
    producer = KafkaProducer(bootstrap_servers=bootstrap, security_protocol="SASL_PLAINTEXT", enable_idempotence=False, **login)
    for _ in rounds("a re-authentication"):
        producer.send(TOPIC, b"x", partition=0).get(30)
        if is_over():
            break
    producer.close()


@pytest.mark.parametrize("produce", [produce_by_librdkafka, produce_by_kafka_python])
async def test_clients_authenticate_again(rig: Rig, produce: Callable[[str, Callable[[], bool]], None]) -> None:
    gateway = await started(rig, reauthentication_s_max=SESSION_S, authentication_s_max=60.0)
    meters = gateway.meters
    bootstrap = f"127.0.0.1:{rig.port_base + SASL_AT}"
    await asyncio.to_thread(produce, bootstrap, lambda: meters.reauthentications > 0)
    assert (meters.failed_authentications, meters.failed_reauthentications) == (0, 0)
