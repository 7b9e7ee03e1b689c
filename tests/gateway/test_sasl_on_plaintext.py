"""SaslHandshake and SaslAuthenticate on a PLAINTEXT listener: Kafka's refusals."""

import pytest

from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from libs.wire.messages.sasl_handshake import SaslHandshakeRequest
from services.gateway.handlers import SERVED
from tests.gateway.fake_gateway import Cluster, FakeGateway, context


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512", ""])
@pytest.mark.parametrize("version", [0, 1])
async def test_a_handshake_hears_that_nobody_expects_one(version: int, mechanism: str) -> None:
    served = SERVED[ApiKey.SASL_HANDSHAKE]
    response = await served.handle(FakeGateway(Cluster()), context(version), SaslHandshakeRequest(mechanism))
    assert (response.error_code, response.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    assert served.written(version, 5, response)[4:] == b"\0\0\0\5" + b"\0\x22" + b"\0\0\0\0"


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_token_is_refused_and_no_session_begins(version: int) -> None:
    served = SERVED[ApiKey.SASL_AUTHENTICATE]
    response = await served.handle(FakeGateway(Cluster()), context(version), SaslAuthenticateRequest(b"\0user\0password"))
    assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert response.error_message == "SaslAuthenticate request received after successful authentication"
    assert (response.auth_bytes, response.session_lifetime_ms) == (b"", 0)
    assert served.written(version, 5, response)
