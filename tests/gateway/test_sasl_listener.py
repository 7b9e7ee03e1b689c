"""A listener with SASL: who is served, what is closed, and what the gateway knows of a client that has authenticated."""

import asyncio
import logging
import struct
from base64 import b64encode
from dataclasses import replace
from math import inf, nan

import pytest
from scramp import ScramClient, ScramMechanism

from libs.cluster import keys
from libs.cluster.records import ClientQuotas, QuotaEntity
from libs.cluster.scram_credentials import SCRAM_SHA_256, SCRAM_SHA_512
from libs.cluster.store import Delete, Put
from libs.telemetry.level_switches import Switches
from libs.telemetry.logs import LONGEST_VALUE
from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.messages import sasl_authenticate, sasl_handshake
from services.gateway.core.authentication import SaslExchange
from services.gateway.core.denial_delays import DenialDelays
from tests.gateway.conftest import Rig
from tests.gateway.kafka_client import API_VERSIONS, METADATA, PRODUCE, RawClient
from tests.gateway.limited_clients import LONGEST_MS, PRODUCED, produced
from tests.gateway.sasl_rig import (
    ALL,
    AUTHENTICATE,
    HANDSHAKE,
    SALT,
    SASL_AT,
    SECRET,
    add,
    authenticate,
    closes,
    connect,
    handshake,
    is_served,
    log_in,
    send_handshake,
    send_token,
    started,
)
from tests.support.polling import until


@pytest.mark.parametrize("mechanism", ALL)
@pytest.mark.parametrize("broker_id", [0, 1])
async def test_a_user_is_served_after_it_has_authenticated(rig: Rig, mechanism: str, broker_id: int) -> None:
    gateway = await started(rig)
    client = await connect(rig, broker_id)
    client.ask(API_VERSIONS, 0, b"")
    await client.answer(API_VERSIONS, 0)
    assert await log_in(client, mechanism=mechanism) == ErrorCode.NONE
    assert await is_served(client)
    (connection,) = gateway.connections
    assert (connection.principal, connection.listener) == ("User:u", "SASL_PLAINTEXT")
    shown = gateway.connection_views.connections()
    assert isinstance(shown, dict)
    assert shown["connections"][0]["principal"] == "User:u"
    assert gateway.meters.authentications == 1
    client.send(struct.pack(">i", 20_000) + bytes(20_000))  # no longer bounded by 16 KiB: it is malformed, and not too long
    assert await client.ended()
    await until(lambda: rig.closed("frame") == 0 and len(gateway.connections) == 0)


async def test_the_other_listener_asks_nobody_and_metadata_names_the_listener_of_the_client(rig: Rig) -> None:
    gateway = await started(rig)
    plaintext, sasl = await rig.client(), await connect(rig)
    assert await log_in(sasl) == 0
    ports = []
    for client in (plaintext, sasl):
        client.ask(METADATA, 1, b"\0\0\0\0")
        reader = (await client.answer(METADATA, 1))[1]
        assert reader.int32() == 2
        reader.int32()
        assert reader.string(False) == "127.0.0.1"
        ports.append(reader.int32())
    assert [port - rig.port_base for port in ports] == [1, SASL_AT + 1]
    assert sorted(connection.principal for connection in gateway.connections) == ["User:ANONYMOUS", "User:u"]


@pytest.mark.parametrize("mechanism", ALL)
@pytest.mark.parametrize(("user", "password"), [("u", "wrong"), ("nobody", SECRET), ("nobody", "wrong")])
async def test_a_wrong_user_or_password_is_denied_and_closed(rig: Rig, mechanism: str, user: str, password: str) -> None:
    gateway = await started(rig)
    client = await connect(rig)
    assert await log_in(client, user, password, mechanism) == ErrorCode.SASL_AUTHENTICATION_FAILED
    await closes(rig, client, "authentication")
    assert (gateway.meters.authentications, gateway.meters.failed_authentications) == (0, 1)


@pytest.mark.parametrize("mechanism", ALL)
async def test_the_line_of_a_wrong_password_has_the_user_bounded(
    rig: Rig, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    await started(rig)
    user = "u" * 900
    await log_in(await connect(rig), user, "wrong", mechanism)
    await until(lambda: "client connection closed" in caplog.text)
    (line,) = [record for record in caplog.records if record.getMessage() == "client connection closed"]
    found = line.__dict__["fields"]
    assert found["reason"] == "authentication"
    assert user.startswith(found["user"])
    assert len(found["user"]) <= LONGEST_VALUE + 1


async def test_whoever_hangs_up_before_the_denial_leaves_nothing_behind(rig: Rig) -> None:
    gateway = await started(rig, failed_authentication_delay_ms=60_000)
    client = await connect(rig)
    assert (await handshake(client, SCRAM_SHA_256)).error_code == 0
    send_token(client, b"nonsense")
    await until(lambda: gateway.meters.failed_authentications == 1)
    await client.close()
    await until(lambda: len(gateway.connections) == 0)


@pytest.mark.parametrize("mechanism", ALL)
async def test_denials_wait_longer_and_the_right_password_does_not_wait(
    rig: Rig, mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[tuple[str, str]] = []
    next_s = DenialDelays.next_s

    def note(self: DenialDelays, host: str, user: str, now: float) -> float:
        noted.append((host, user))
        return next_s(self, host, user, now)

    monkeypatch.setattr(DenialDelays, "next_s", note)
    await started(rig)
    for user in ("u", "nobody"):
        assert await log_in(await connect(rig), user, "wrong", mechanism) == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert noted == [("tcp:127.0.0.1", "u"), ("tcp:127.0.0.1", "nobody")]
    assert await log_in(await connect(rig), mechanism=mechanism) == 0
    assert len(noted) == 2


async def test_a_deleted_user_stays_connected_and_does_not_come_back(rig: Rig) -> None:
    gateway = await started(rig)
    client = await connect(rig)
    assert await log_in(client) == 0
    await rig.store.txn([], [Delete(keys.scram_credential(SCRAM_SHA_256, "u"))])
    credentials = gateway.credentials.current
    assert credentials is not None
    await until(lambda: credentials.get(SCRAM_SHA_256, "u") is None)
    assert await is_served(client)
    assert await log_in(await connect(rig)) == ErrorCode.SASL_AUTHENTICATION_FAILED
    await add(rig, "u")
    await until(lambda: credentials.get(SCRAM_SHA_256, "u") is not None)
    assert await log_in(await connect(rig)) == 0


async def test_a_damaged_credential_locks_out_its_user_alone(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    await rig.store.txn([], [Put(keys.scram_credential(SCRAM_SHA_256, "damaged"), SECRET.encode())])
    await started(rig)
    assert await log_in(await connect(rig), "damaged") == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert await log_in(await connect(rig)) == 0
    assert "SCRAM credential unreadable" in caplog.text
    assert SECRET not in str([record.__dict__ for record in caplog.records])


# --- hostile clients ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api_key", [key for key in ApiKey if key not in (API_VERSIONS, HANDSHAKE, AUTHENTICATE)])
async def test_any_other_request_before_the_handshake_closes(rig: Rig, api_key: ApiKey) -> None:
    await started(rig)
    client = await connect(rig)
    client.ask(api_key, 1, b"")
    await closes(rig, client)


@pytest.mark.parametrize("version", [0, 1])
async def test_a_token_without_a_handshake_closes(rig: Rig, version: int) -> None:
    await started(rig)
    client = await connect(rig)
    send_token(client, f"\0u\0{SECRET}".encode(), version)
    await closes(rig, client)


@pytest.mark.parametrize("api_key", [API_VERSIONS, METADATA, PRODUCE])
async def test_any_other_request_within_the_exchange_closes(rig: Rig, api_key: int) -> None:
    await started(rig)
    client = await connect(rig)
    assert (await handshake(client, SCRAM_SHA_256)).error_code == 0
    client.ask(api_key, 1, b"")
    await closes(rig, client)


async def test_a_second_handshake_hears_why_and_is_closed(rig: Rig) -> None:
    await started(rig)
    client = await connect(rig)
    assert (await handshake(client, SCRAM_SHA_256)).error_code == 0
    assert (await handshake(client, SCRAM_SHA_256)).error_code == ErrorCode.ILLEGAL_SASL_STATE
    await closes(rig, client)


async def test_a_handshake_after_the_exchange_is_answered_and_changes_nothing(rig: Rig) -> None:
    gateway = await started(rig)
    client = await connect(rig)
    assert await log_in(client) == 0
    assert (await handshake(client, SCRAM_SHA_256)).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert (await authenticate(client, b"x")).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert await is_served(client)
    assert [connection.principal for connection in gateway.connections] == ["User:u"]


@pytest.mark.parametrize("mechanism", ["GSSAPI", "OAUTHBEARER", "PLAIN", ""])
async def test_a_mechanism_that_is_not_enabled_hears_which_are(rig: Rig, mechanism: str) -> None:
    await started(rig, sasl_enabled_mechanisms=(SCRAM_SHA_512,))
    client = await connect(rig)
    answer = await handshake(client, mechanism)
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, [SCRAM_SHA_512])
    await closes(rig, client)


def send_alone(client: RawClient, token: bytes) -> None:
    """A token without a header of Kafka's, as clients send it that are older than Kafka 1.0."""
    client.send(struct.pack(">i", len(token)) + token)


@pytest.mark.parametrize("mechanism", ALL)
async def test_a_client_older_than_kafka_1_0_logs_in_by_tokens_without_headers(rig: Rig, mechanism: str) -> None:
    await started(rig)
    client = await connect(rig)
    assert (await handshake(client, mechanism, version=0)).error_code == 0
    if mechanism == "PLAIN":
        send_alone(client, f"\0u\0{SECRET}".encode())
        assert await client.frame() == b"", "Kafka answers so"
    else:
        scram = ScramClient([mechanism], "u", SECRET)
        send_alone(client, scram.get_client_first().encode())
        scram.set_server_first((await client.frame()).decode())
        send_alone(client, scram.get_client_final().encode())
        scram.set_server_final((await client.frame()).decode())
    assert await is_served(client)


@pytest.mark.parametrize("token", [b"\0u\0wrong", b"\0\0", b"n", b"", bytes(300)])
async def test_a_wrong_token_without_a_header_closes_and_hears_nothing(rig: Rig, token: bytes) -> None:
    gateway = await started(rig)
    client = await connect(rig)
    assert (await handshake(client, "PLAIN", version=0)).error_code == 0
    send_alone(client, token)
    with pytest.raises(asyncio.IncompleteReadError):
        await client.frame()
    assert gateway.meters.failed_authentications == 1


@pytest.mark.parametrize("length", [16_385, 1 << 20, (1 << 31) - 1, -1])
async def test_a_longer_frame_than_16_kib_closes_before_it_is_read(rig: Rig, length: int) -> None:
    await started(rig)
    client = await connect(rig)
    client.send(struct.pack(">i", length))
    await closes(rig, client, "frame")


async def test_a_frame_of_16_kib_is_read(rig: Rig) -> None:
    await started(rig)
    client = await connect(rig)
    assert (await handshake(client, SCRAM_SHA_256)).error_code == 0
    head = 14 + 4  # the header with its client id of four bytes, and the length of the token
    answer = await authenticate(client, b"n" * (16_384 - head))
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize("body", [b"", b"\0\0\0\x05abc", b"\xff\xff\xff\xff", b"\0\0\0\x01ab"])
async def test_a_malformed_token_closes(rig: Rig, body: bytes) -> None:
    await started(rig)
    client = await connect(rig)
    assert (await handshake(client, SCRAM_SHA_256)).error_code == 0
    client.ask(AUTHENTICATE, 1, body)
    await closes(rig, client, "malformed")


async def test_half_an_exchange_ends_at_its_time(rig: Rig) -> None:
    gateway = await started(rig, authentication_s_max=0.01)
    silent, halfway = await connect(rig), await connect(rig)
    assert (await handshake(halfway, SCRAM_SHA_256)).error_code == 0
    await closes(rig, silent)
    await closes(rig, halfway)
    assert len(gateway.connections) == 0


async def test_requests_that_were_sent_ahead_wait_for_the_exchange(rig: Rig) -> None:
    """One segment: a whole PLAIN exchange, and a request of the user."""
    await started(rig)
    client = await connect(rig)
    send_handshake(client, "PLAIN")
    send_token(client, f"\0u\0{SECRET}".encode())
    client.ask(METADATA, 1, b"\0\0\0\0", correlation_id=9)
    assert sasl_handshake.read_response((await client.answer())[1], 1).error_code == 0
    assert sasl_authenticate.read_response((await client.answer())[1], 1).error_code == 0
    assert (await client.answer(METADATA, 1))[0] == 9


async def test_requests_behind_a_wrong_password_do_not_begin(rig: Rig) -> None:
    await started(rig)
    client = await connect(rig)
    assert (await handshake(client, "PLAIN")).error_code == 0
    send_token(client, b"\0u\0wrong")
    client.ask(METADATA, 1, b"\0\0\0\0", correlation_id=9)
    assert sasl_authenticate.read_response((await client.answer())[1], 1).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    with pytest.raises(asyncio.IncompleteReadError):
        await client.answer(METADATA, 1)


# --- what the gateway knows of a user -------------------------------------------------------------------------------------

LEVELS = [
    QuotaEntity("u", "test"),
    QuotaEntity("u", ""),
    QuotaEntity("u"),
    QuotaEntity("", "test"),
    QuotaEntity("", ""),
    QuotaEntity(""),
    QuotaEntity(client_id="test"),
    QuotaEntity(client_id=""),
]
"""Kafka's levels of precedence."""


@pytest.mark.parametrize("level", range(len(LEVELS)))
async def test_a_quota_of_each_level_limits_an_authenticated_user_and_lower_ones_do_not(rig: Rig, level: int) -> None:
    gateway = await started(rig)
    rates = {entity: 1e-6 if at == level else 1e12 for at, entity in enumerate(LEVELS) if at >= level}
    for entity, rate in rates.items():
        await rig.put(keys.client_quotas(entity), ClientQuotas({PRODUCED: rate}))
    assert await gateway.wait_for_revision(rig.store.keyspace.revision, 10)
    client = await connect(rig, 1)
    assert await log_in(client) == 0
    assert await produced(client, client_id=b"test") == LONGEST_MS
    (connection,) = gateway.connections
    assert [entity[1:] for entity in connection.muted_for] == [entity_of(level)]


def entity_of(level: int) -> tuple[str, str]:
    """Whose debt it is: user and client id. "" where it is everyone's."""
    return "u" if level < 6 else "", "" if level in (2, 5) else "test"


async def test_another_users_quota_does_not_limit_who_has_none(rig: Rig) -> None:
    gateway = await started(rig)
    await rig.put(keys.client_quotas(QuotaEntity("u")), ClientQuotas({PRODUCED: 1e-6}))
    assert await gateway.wait_for_revision(rig.store.keyspace.revision, 10)
    assert await produced(await rig.client(1)) == 0


async def test_nothing_logged_or_shown_has_a_secret(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(1):
        Switches.look()
        gateway = await started(rig)
        for mechanism in ALL:
            assert await log_in(await connect(rig), mechanism=mechanism) == 0
            await log_in(await connect(rig), password=SECRET + "-almost", mechanism=mechanism)
        views = str([gateway.debug(), gateway.connection_views.connections(), gateway.connection_views.clients(), gateway.image])
    Switches.look()
    everything = views + str([record.__dict__ for record in caplog.records])
    assert any(record.levelno < logging.DEBUG for record in caplog.records), "the request log at TRACE"
    _, stored_key, server_key, _ = ScramMechanism(SCRAM_SHA_256).make_auth_info(SECRET, 4096, SALT)
    assert "User:u" in everything
    for secret in (SECRET.encode(), SALT, stored_key, server_key):
        assert not any(form in everything for form in forms(secret))


def forms(secret: bytes) -> list[str]:
    """How it could be shown."""
    return [repr(secret)[2:-1], secret.hex(), b64encode(secret).decode()]


async def test_a_gateway_that_cannot_read_the_credentials_lets_nobody_in(rig: Rig) -> None:
    gateway = await started(rig)
    gateway.credentials.current = None
    client = await connect(rig)
    client.ask(HANDSHAKE, 1, struct.pack(">h", 5) + b"PLAIN")
    await closes(rig, client)


async def test_draining_ends_who_has_not_authenticated(rig: Rig) -> None:
    gateway = await started(rig)
    halfway, user = await connect(rig), await connect(rig)
    assert await log_in(user) == 0
    assert (await handshake(halfway, SCRAM_SHA_256)).error_code == 0
    for connection in list(gateway.connections):
        connection.drain()
    assert await halfway.ended()
    assert await user.ended()
    assert rig.closed("drain") == 2


def test_settings_that_ask_for_what_is_not_there_are_refused(rig: Rig) -> None:
    def problem(**changes: object) -> str:
        return replace(rig.config, data_dir="/data", etcd=("127.0.0.1:2379",), **changes).problem() or ""  # type: ignore[arg-type]

    good = "SASL_PLAINTEXT://127.0.0.1:9492"
    assert problem(sasl_listener=good) == ""
    assert "is not of the form" in problem(sasl_listener=good, sasl_advertised_listener="here")
    assert "PLAIN without TLS" in problem(sasl_listener=good, sasl_enabled_mechanisms=("PLAIN",))
    assert "GSSAPI is not served" in problem(sasl_listener=good, sasl_enabled_mechanisms=("GSSAPI",))
    assert problem(sasl_advertised_listener=good) == "PENSTOCK_SASL_ADVERTISED_LISTENER needs PENSTOCK_SASL_LISTENER"
    for seconds in (-1.0, 0.5):
        assert problem(sasl_listener=good, reauthentication_s_max=seconds).endswith("expected 0, or 1.0 or more")
    assert problem(sasl_listener=good, reauthentication_s_max=60.0) == ""
    assert problem(sasl_listener=good, reauthentication_s_max=nan).endswith("expected 0, or 1.0 or more")
    for seconds in (0.0, -1.0, nan, inf):
        assert problem(authentication_s_max=seconds).startswith("PENSTOCK_AUTHENTICATION_S_MAX is")
        assert problem(tls_handshake_s_max=seconds).startswith("PENSTOCK_TLS_HANDSHAKE_S_MAX is")
    assert problem(failed_authentication_delay_ms=-1).endswith("expected 0 or more")
    assert "PENSTOCK_LISTENER_NAME" in problem(sasl_listener=good, listener_name="SASL_PLAINTEXT")


async def test_a_fault_of_ours_closes_one_connection_and_shows_no_token(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: object, token: bytes) -> None:
        raise RuntimeError(token)

    await started(rig)
    client = await connect(rig)
    assert (await handshake(client, "PLAIN")).error_code == 0
    with monkeypatch.context() as patched:
        patched.setattr(SaslExchange, "take", fail)
        send_token(client, f"\0u\0{SECRET}".encode())
        await closes(rig, client, "internal")
    assert "authentication failed unexpectedly" in caplog.text
    assert SECRET not in caplog.text + str([record.__dict__ for record in caplog.records])
    assert await log_in(await connect(rig)) == 0
