"""A rig whose gateway has a listener with SASL, and clients that log in there."""

import ssl

from scramp import ScramClient, ScramMechanism

from libs.cluster import keys
from libs.cluster.scram_credentials import SCRAM_SHA_256, SCRAM_SHA_512, ScramCredential, encoded
from libs.cluster.store import Put
from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.messages import sasl_authenticate, sasl_handshake
from libs.wire.primitives import Writer
from services.gateway.service import Gateway
from tests.gateway.conftest import Rig
from tests.gateway.kafka_client import METADATA, RawClient
from tests.support.polling import until

SECRET = "a-secret-that-nothing-may-show"
SALT = b"a-salt-that-nothing-may-show"
SASL_AT = 4
"""The place of the second listener among the rig's ports."""
ALL = ("PLAIN", SCRAM_SHA_256, SCRAM_SHA_512)
HANDSHAKE, AUTHENTICATE = int(ApiKey.SASL_HANDSHAKE), int(ApiKey.SASL_AUTHENTICATE)


async def started(rig: Rig, **changes: object) -> Gateway:
    """A gateway with both listeners. `u` has both credentials."""
    for mechanism in (SCRAM_SHA_256, SCRAM_SHA_512):
        await add(rig, "u", mechanism)
    settings = {"sasl_enabled_mechanisms": ALL, "sasl_plain_without_tls": True, "failed_authentication_delay_ms": 1, **changes}
    settings.setdefault("sasl_listener", f"SASL_PLAINTEXT://127.0.0.1:{rig.port_base + SASL_AT}")
    return await rig.start(**settings)


async def add(rig: Rig, user: str, mechanism: str = SCRAM_SHA_256) -> None:
    salt, stored_key, server_key, iterations = ScramMechanism(mechanism).make_auth_info(SECRET, 4096, SALT)
    record = encoded(ScramCredential(salt, stored_key, server_key, iterations))
    await rig.store.txn([], [Put(keys.scram_credential(mechanism, user), record)])


async def connect(rig: Rig, broker_id: int = 0, tls: ssl.SSLContext | None = None) -> RawClient:
    return await rig.client(SASL_AT + broker_id, tls=tls)


def send_handshake(client: RawClient, mechanism: str, version: int = 1) -> None:
    writer = Writer()
    sasl_handshake.write_request(writer, sasl_handshake.SaslHandshakeRequest(mechanism), version)
    client.ask(HANDSHAKE, version, bytes(writer.buffer))


async def handshake(client: RawClient, mechanism: str, version: int = 1) -> sasl_handshake.SaslHandshakeResponse:
    send_handshake(client, mechanism, version)
    return sasl_handshake.read_response((await client.answer())[1], version)


def send_token(client: RawClient, token: bytes, version: int = 1) -> None:
    writer = Writer()
    sasl_authenticate.write_request(writer, sasl_authenticate.SaslAuthenticateRequest(token), version)
    client.ask(AUTHENTICATE, version, bytes(writer.buffer))


async def authenticate(client: RawClient, token: bytes, version: int = 1) -> sasl_authenticate.SaslAuthenticateResponse:
    send_token(client, token, version)
    return sasl_authenticate.read_response((await client.answer())[1], version)


async def log_in(client: RawClient, user: str = "u", password: str = SECRET, mechanism: str = SCRAM_SHA_256) -> int:
    """The error of the last answer."""
    return (await last_answer(client, user, password, mechanism)).error_code


async def last_answer(
    client: RawClient, user: str = "u", password: str = SECRET, mechanism: str = SCRAM_SHA_256
) -> sasl_authenticate.SaslAuthenticateResponse:
    assert (await handshake(client, mechanism)).error_code == ErrorCode.NONE
    if mechanism == "PLAIN":
        return await authenticate(client, f"\0{user}\0{password}".encode())
    scram = ScramClient([mechanism], user, password)
    first = await authenticate(client, scram.get_client_first().encode())
    assert first.error_code == ErrorCode.NONE
    scram.set_server_first(bytes(first.auth_bytes).decode())
    last = await authenticate(client, scram.get_client_final().encode())
    if not last.error_code:
        scram.set_server_final(bytes(last.auth_bytes).decode())
    return last


async def is_served(client: RawClient) -> bool:
    client.ask(METADATA, 1, b"\0\0\0\0", correlation_id=9)
    return (await client.answer(METADATA, 1))[0] == 9


async def closes(rig: Rig, client: RawClient, reason: str = "unauthenticated") -> None:
    before = rig.closed(reason)
    assert await client.ended()
    await until(lambda: rig.closed(reason) >= max(before, 1))
