"""A listener with OAUTHBEARER: who is served for a token, for how long, and that no token shows anywhere."""

import asyncio
import logging
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Producer

from libs.telemetry.level_switches import Switches
from libs.wire.errors import ErrorCode
from libs.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from services.gateway.peers import signing_keys
from tests.compat.clients.kafka_python import AbstractTokenProvider, KafkaProducer
from tests.gateway.conftest import TOPIC, Rig
from tests.gateway.kafka_client import METADATA, RawClient
from tests.gateway.sasl_rig import (
    SASL_AT,
    authenticate,
    closes,
    connect,
    handshake,
    is_served,
    log_in,
    send_token,
)
from tests.gateway.token_issuer import claims, first_message, forged, key_set, public_jwk, token
from tests.gateway.token_listener import OAUTHBEARER, keys, with_tokens
from tests.support.polling import rounds, until

__all__ = ["keys"]

INVALID = b'{"status":"invalid_token"}'


async def send_bearer(client: RawClient, text: str, acting_as: str = "") -> SaslAuthenticateResponse:
    assert (await handshake(client, OAUTHBEARER)).error_code == 0
    return await authenticate(client, first_message(text, acting_as))


async def test_a_user_is_served_for_its_token_until_it_expires(rig: Rig, keys: Path) -> None:
    gateway = await with_tokens(rig, keys)
    client = await connect(rig)
    answer = await send_bearer(client, token(), "a=u")
    assert (answer.error_code, bytes(answer.auth_bytes)) == (0, b"")
    assert 0 < answer.session_lifetime_ms <= 3_600_000
    assert await is_served(client)
    assert [connection.principal for connection in gateway.connections] == ["User:u"]


async def test_a_token_that_expires_while_clocks_may_differ_opens_no_session(rig: Rig, keys: Path) -> None:
    await with_tokens(rig, keys)
    client = await connect(rig)
    answer = await send_bearer(client, token(claims(exp=int(time.time()) - 5)))
    assert (answer.error_code, answer.session_lifetime_ms) == (0, 0)
    client.ask(METADATA, 1, b"\0\0\0\0")
    await closes(rig, client, "expired")


async def test_a_client_goes_on_with_its_next_token(rig: Rig, keys: Path) -> None:
    gateway = await with_tokens(rig, keys, reauthentication_s_max=60.0)
    client = await connect(rig)
    for _ in range(2):
        assert (await send_bearer(client, token())).session_lifetime_ms == 60_000
        assert await is_served(client)
    assert (gateway.meters.authentications, gateway.meters.reauthentications) == (1, 1)


@pytest.mark.parametrize(
    "text",
    [
        token(claims(exp=1)),
        token(claims(iss="https://other.example")),
        token(claims(aud="other")),
        token(claims(sub=None)),
        token(kind="RSA other"),
        token(key_id="unknown"),
        forged({"alg": "none", "kid": "k"}, claims()),
        forged({"alg": "none"}, claims()),
        forged({"alg": "HS256", "kid": "k"}, claims(), b"x"),
        "x" * 15_000,
        "no-token",
    ],
    ids=["expired", "issuer", "audience", "nobody", "signature", "unknown", "none", "none-2", "HS256", "huge", "nonsense"],
)
async def test_an_invalid_token_hears_an_error_and_is_closed(rig: Rig, keys: Path, text: str) -> None:
    gateway = await with_tokens(rig, keys)
    client = await connect(rig)
    answer = await send_bearer(client, text)
    assert (answer.error_code, bytes(answer.auth_bytes), answer.session_lifetime_ms) == (0, INVALID, 0)
    denied = await authenticate(client, b"\x01")
    assert (denied.error_code, denied.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, INVALID.decode())
    await closes(rig, client, "authentication")
    assert (gateway.meters.authentications, gateway.meters.failed_authentications) == (0, 1)


async def test_a_client_that_ignores_the_error_is_not_served(rig: Rig, keys: Path) -> None:
    await with_tokens(rig, keys)
    client = await connect(rig)
    assert bytes((await send_bearer(client, "no-token")).auth_bytes) == INVALID
    client.ask(METADATA, 1, b"\0\0\0\0")
    await closes(rig, client)


async def test_a_valid_token_after_an_invalid_one_needs_a_new_connection(rig: Rig, keys: Path) -> None:
    await with_tokens(rig, keys)
    client = await connect(rig)
    await send_bearer(client, "no-token")
    assert (await authenticate(client, first_message(token()))).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    await closes(rig, client, "authentication")


@pytest.mark.parametrize("message", [b"", b"\x01", b"n,,", b"n,,\x01auth=Basic x\x01\x01", b"\0u\0password", b"\xff"])
async def test_another_first_message_is_denied(rig: Rig, keys: Path, message: bytes) -> None:
    await with_tokens(rig, keys)
    client = await connect(rig)
    assert (await handshake(client, OAUTHBEARER)).error_code == 0
    assert (await authenticate(client, message)).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    await closes(rig, client, "authentication")


async def test_a_frame_of_more_than_16_kib_closes(rig: Rig, keys: Path) -> None:
    await with_tokens(rig, keys)
    client = await connect(rig)
    assert (await handshake(client, OAUTHBEARER)).error_code == 0
    send_token(client, first_message("x" * 16_384))
    await closes(rig, client, "frame")


async def test_a_new_key_is_known_at_its_first_token(rig: Rig, keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signing_keys, "UNKNOWN_KEY_S_MIN", 0.0)
    await with_tokens(rig, keys)
    assert await bearer_is_let_in(rig, token())
    await asyncio.to_thread(keys.write_bytes, key_set(public_jwk("P-256", "new")))
    assert await bearer_is_let_in(rig, token(kind="P-256", algorithm="ES256", key_id="new"))
    assert not await bearer_is_let_in(rig, token()), "the old key is gone"


async def bearer_is_let_in(rig: Rig, text: str) -> bool:
    return not bytes((await send_bearer(await connect(rig), text)).auth_bytes)


async def test_without_keys_tokens_are_denied_and_other_mechanisms_are_served(rig: Rig, tmp_path: Path) -> None:
    gateway = await with_tokens(rig, tmp_path / "missing.json")
    await until(lambda: gateway.meters.unread_signing_keys == 1)
    assert not await bearer_is_let_in(rig, token())
    assert await log_in(await connect(rig)) == 0


async def test_tokens_need_no_credentials_of_scram(rig: Rig, keys: Path) -> None:
    gateway = await with_tokens(rig, keys)
    gateway.credentials.current = None
    assert await bearer_is_let_in(rig, token())


async def test_whoever_hangs_up_while_a_token_is_checked_leaves_nothing_behind(
    rig: Rig, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = await with_tokens(rig, keys)
    client = await connect(rig)
    assert (await handshake(client, OAUTHBEARER)).error_code == 0
    for _ in range(20):
        send_token(client, first_message(token()))
    await client.close()
    await until(lambda: len(gateway.connections) == 0)


def test_settings_that_would_let_anybody_in_are_refused(rig: Rig) -> None:
    enabled = {
        "sasl_listener": "SASL_PLAINTEXT://127.0.0.1:9492",
        "sasl_enabled_mechanisms": (OAUTHBEARER,),
        "sasl_oauthbearer_without_tls": True,
        "sasl_oauthbearer_jwks_endpoint_url": "https://issuer.example/keys",
    }

    def problem(**changes: object) -> str:
        settings = {**enabled, **changes}
        return replace(rig.config, data_dir="/data", etcd=("127.0.0.1:2379",), **settings).problem() or ""  # type: ignore[arg-type]

    assert problem() == ""
    assert "PENSTOCK_SASL_OAUTHBEARER_WITHOUT_TLS=true allows it" in problem(sasl_oauthbearer_without_tls=False)
    assert problem(sasl_oauthbearer_jwks_endpoint_url="").startswith("PENSTOCK_SASL_OAUTHBEARER_JWKS_ENDPOINT_URL is empty")
    assert "is neither https" in problem(sasl_oauthbearer_jwks_endpoint_url="http://issuer.example/keys")
    assert "SUB_CLAIM_NAME is empty" in problem(sasl_oauthbearer_sub_claim_name="")
    for skew_s in (-1.0, 601.0, float("nan")):
        assert "expected 0 to 600" in problem(sasl_oauthbearer_clock_skew_s=skew_s)
    assert "expected 1 or more" in problem(sasl_oauthbearer_jwks_endpoint_refresh_s=0.0)


async def test_tokens_are_in_no_log_and_no_view(rig: Rig, keys: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(1):
        Switches.look()
        gateway = await with_tokens(rig, keys)
        sent = [token(), token(claims(exp=1)), token(key_id="unknown"), forged({"alg": "none"}, claims()), "nonsense-of-a-client"]
        clients = [await connect(rig) for _ in sent]
        for client, text in zip(clients, sent, strict=True):
            if bytes((await send_bearer(client, text)).auth_bytes):
                await authenticate(client, first_message(text))
        views = str([gateway.debug(), gateway.connection_views.connections(), gateway.connection_views.clients(), gateway.traces])
    Switches.look()
    everything = views + str([record.__dict__ for record in caplog.records])
    assert any(record.levelno < logging.DEBUG for record in caplog.records), "the request log at TRACE"
    assert "OAUTHBEARER: invalid token: expired" in everything
    for text in sent:
        assert not any(part and part in everything for part in text.split("."))


def test_a_gateway_without_the_mechanism_imports_nothing_for_it() -> None:
    """It takes some 10 MB."""
    program = "import services.gateway.__main__, sys; print({'jwt', 'cryptography'} & {*sys.modules})"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, encoding="utf-8").stdout == "set()\n"


# --- real clients ---------------------------------------------------------------------------------------------------------


class Provider(AbstractTokenProvider):
    def __init__(self, text: str) -> None:
        self.text = text

    def token(self) -> str:
        return self.text


class AioProvider(AioTokenProvider):
    def __init__(self, text: str) -> None:
        self.text = text

    async def token(self) -> str:
        return self.text


def librdkafka(bootstrap: str, text: str) -> bool:
    """Whether it is let in."""
    told: list[str] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": OAUTHBEARER,
            "oauth_cb": lambda _: (text, time.time() + 3600),
            "error_cb": lambda error: told.append(error.name()),
        }
    )
    producer.produce(TOPIC, b"x", partition=0)
    for _ in rounds("an answer, or a denial"):
        if producer.flush(0.1) == 0:
            return True
        if "_AUTHENTICATION" in told:
            producer.purge()
            return False
    raise AssertionError(told)


def kafka_python(bootstrap: str, text: str) -> bool:
    """Only with a valid token: it leaves its sockets open where it is denied."""
    login = {"sasl_mechanism": OAUTHBEARER, "sasl_oauth_token_provider": Provider(text), "enable_idempotence": False}
    producer = KafkaProducer(bootstrap_servers=bootstrap, security_protocol="SASL_PLAINTEXT", **login)
    offset = producer.send(TOPIC, b"x", partition=0).get(30).offset
    producer.close()
    return offset >= 0


async def aiokafka(bootstrap: str, text: str) -> bool:
    login = {"sasl_mechanism": OAUTHBEARER, "sasl_oauth_token_provider": AioProvider(text)}
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, security_protocol="SASL_PLAINTEXT", **login)
    try:
        await producer.start()
    except AioKafkaError:
        return False
    finally:
        await producer.stop()
    return True


async def test_clients_are_let_in_and_denied(rig: Rig, keys: Path) -> None:
    gateway = await with_tokens(rig, keys)
    bootstrap = f"127.0.0.1:{rig.port_base + SASL_AT}"
    assert await asyncio.to_thread(librdkafka, bootstrap, token())
    assert await asyncio.to_thread(kafka_python, bootstrap, token())
    assert await aiokafka(bootstrap, token())
    assert gateway.meters.failed_authentications == 0
    assert not await asyncio.to_thread(librdkafka, bootstrap, token(claims(exp=1)))
    assert not await aiokafka(bootstrap, token(claims(exp=1)))
    assert gateway.meters.failed_authentications >= 2


async def test_librdkafka_goes_on_with_its_next_token(rig: Rig, keys: Path) -> None:
    gateway = await with_tokens(rig, keys, reauthentication_s_max=2.0, authentication_s_max=60.0)

    def produce() -> None:
        login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": OAUTHBEARER}
        producer = Producer(
            {
                "bootstrap.servers": f"127.0.0.1:{rig.port_base + SASL_AT}",
                **login,
                "oauth_cb": lambda _: (token(), time.time() + 60),
            }
        )
        for _ in rounds("a re-authentication"):
            producer.produce(TOPIC, b"x", partition=0)
            assert producer.flush(30) == 0
            if gateway.meters.reauthentications:
                return
            producer.poll(0.05)

    await asyncio.to_thread(produce)
    assert gateway.meters.failed_reauthentications == 0
