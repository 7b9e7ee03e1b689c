"""The server's side of one SCRAM exchange (RFC 5802), by the package `scramp`, which compares proofs in constant time.

Only a gateway whose clients authenticate imports this: the package takes memory.
"""

from collections.abc import Callable

from scramp import ScramException, ScramMechanism

from libs.cluster.scram_credentials import ScramCredential


class ScramServer:
    def __init__(self, mechanism: str, nonce: str, credential_of: Callable[[str], ScramCredential]) -> None:
        """`credential_of` gets the name as SASLprep leaves it."""
        self._server = ScramMechanism(mechanism).make_server(lambda user: _parts(credential_of(user)), s_nonce=nonce)

    def first(self, token: str) -> str:
        """The answer to the client's first token. Raises ValueError."""
        try:
            self._server.set_client_first(token)
            return str(self._server.get_server_first())
        except ScramException:
            raise ValueError("not SCRAM's first token") from None

    def final(self, token: str) -> str:
        """The answer to the client's last token, whose proof holds. Raises ValueError."""
        sent = next((part[2:] for part in token.split(",") if part.startswith("r=")), "")
        try:
            # As in Kafka, what ends with our nonce will do: librdkafka before 2.6 has its own twice (its issue 4895).
            if sent.endswith(str(self._server.nonce)):
                self._server.nonce = type(self._server.nonce)(sent)
            self._server.set_client_final(token)
            return str(self._server.get_server_final())
        except ScramException:
            raise ValueError("not SCRAM's last token, or the proof is wrong") from None


def _parts(credential: ScramCredential) -> tuple[bytes, bytes, bytes, int]:
    return credential.salt, credential.stored_key, credential.server_key, credential.iterations
