"""The server's side of one SCRAM exchange (RFC 5802), by the package `scramp`, which compares proofs in constant time.

Only a gateway whose clients authenticate imports this: the package takes memory.
"""

from collections.abc import Callable
from typing import Final

from scramp import ScramException, ScramMechanism
from scramp.core import Gs2Header

from libs.cluster.scram_credentials import ScramCredential

_NO_BINDING: Final = "n"


class ScramServer:
    def __init__(self, mechanism: str, nonce: str, credential_of: Callable[[str], ScramCredential]) -> None:
        """`credential_of` gets the name as SASLprep leaves it."""
        self._server = ScramMechanism(mechanism).make_server(lambda user: _parts(credential_of(user)), s_nonce=nonce)

    def first(self, token: str) -> str:
        """The answer to the client's first token. Raises ValueError.

        Its authorization id, if it has one, must have been compared with the user's name. As in Kafka's ScramMessages, the header
        begins with `n`: a client that could bind the login to its channel (`y`, `p`) is refused.
        """
        flag, _, rest = token.partition(",")
        if flag != _NO_BINDING:
            raise ValueError("not the header of a client without channel binding")
        authorization_id, _, bare = rest.partition(",")
        try:
            if authorization_id:
                if len(authorization_id) <= len("a=") or not authorization_id.startswith("a="):
                    raise ValueError("not an authorization id")
                self._server.set_client_first(f"{_NO_BINDING},,{bare}")
                self._server.gs2_header = _Header(f"{_NO_BINDING},{authorization_id},")
            else:
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


class _Header(Gs2Header):  # type: ignore[misc]
    """A header with an authorization id, which the package does not know. The client's last token repeats it (`c=`)."""

    def __init__(self, text: str) -> None:
        super().__init__(_NO_BINDING, None)
        self._text = text

    def __bytes__(self) -> bytes:
        return self._text.encode()


def _parts(credential: ScramCredential) -> tuple[bytes, bytes, bytes, int]:
    return credential.salt, credential.stored_key, credential.server_key, credential.iterations
