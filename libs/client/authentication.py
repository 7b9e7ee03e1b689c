"""The client's side of SASL: PLAIN and SCRAM, over a connection that has asked nothing yet."""

from typing import TYPE_CHECKING

from scramp import ScramClient, ScramException

from libs.client.security import Security, SecurityProblem
from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode, error_name
from libs.wire.messages import sasl_authenticate, sasl_handshake

if TYPE_CHECKING:
    from libs.client.kafka_connection import KafkaConnection

_VERSION = 1


def authenticate(connection: "KafkaConnection", security: Security) -> None:
    """Raises SecurityProblem if the cluster denies the user, and BrokerUnreachable."""
    assert security.mechanism is not None
    assert security.user is not None
    password = security.password()
    request = sasl_handshake.SaslHandshakeRequest(security.mechanism)
    chosen = connection.ask_message(sasl_handshake, ApiKey.SASL_HANDSHAKE, _VERSION, request)
    if chosen.error_code:
        enabled = ", ".join(chosen.mechanisms)
        raise SecurityProblem(f"{connection.address} does not enable {security.mechanism}; it enables {enabled or 'none'}")
    if security.mechanism == "PLAIN":
        _send(connection, security, f"\0{security.user}\0{password}")
        return
    try:
        client = ScramClient([security.mechanism], security.user, password)
        client.set_server_first(_send(connection, security, client.get_client_first()))
        client.set_server_final(_send(connection, security, client.get_client_final()))
    except ScramException:
        raise SecurityProblem(f"{connection.address} does not know the password of user {security.user}") from None


def _send(connection: "KafkaConnection", security: Security, token: str) -> str:
    """The server's token."""
    request = sasl_authenticate.SaslAuthenticateRequest(token.encode())
    answer = connection.ask_message(sasl_authenticate, ApiKey.SASL_AUTHENTICATE, _VERSION, request)
    if answer.error_code:
        name = error_name(answer.error_code)
        if answer.error_code != ErrorCode.SASL_AUTHENTICATION_FAILED:
            raise SecurityProblem(f"{connection.address} answers SaslAuthenticate with {name}")
        raise SecurityProblem(f"{connection.address} denies user {security.user}: {name}")
    return bytes(answer.auth_bytes).decode()
