"""One client's authentication by SASL: which request comes next, and what it is answered. No I/O.

A handshake names the mechanism, and each SaslAuthenticate carries a token of it. SCRAM takes two tokens, and PLAIN one. A wrong
password ends the exchange, as does anything out of order: the client connects again.

Whether a user exists shows nowhere. An unknown one is answered like any other, until the password is wrong.

A token of OAUTHBEARER is checked off the event loop, as is a password of PLAIN. A client whose token is invalid hears an error,
answers it, and is denied (RFC 7628).

A client whose session ends authenticates again on the same connection (KIP-368), as the same user and by the same mechanism.
"""

import hashlib
import hmac
from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final

from libs.cluster.scram_credentials import (
    HASHES,
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    ScramCredential,
    ScramCredentials,
    derived,
)
from libs.lean_dataclass import dataclass
from libs.wire.errors import ErrorCode
from services.gateway.core.bearer_token import INVALID_TOKEN, NAME_BYTES_MAX, Bearer, InvalidToken, ValidToken, read_bearer

if TYPE_CHECKING:
    from services.gateway.core.scram_server import ScramServer

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
OF_ANOTHER_USER: Final = "Authentication failed: Client requested an authorization id that is different from username"
MECHANISMS: Final = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER)
"""What a gateway can be told to enable."""

ANONYMOUS_NAME: Final = "ANONYMOUS"
"""The name of all clients that have not authenticated. So nobody authenticates as a user of that name."""
PASSWORD_BYTES_MAX: Final = 1024
"""PBKDF2 hashes a password once, whatever its length. A longer one is nobody's."""
REAUTHENTICATION_S_MIN: Final = 1.0
"""The time from one re-authentication to the next, as in Kafka. An earlier one hears ILLEGAL_SASL_STATE."""
SESSION_S_MAX: Final = 1e9
"""A token may be valid for longer than clients can count."""


class State(Enum):
    BEGINS = "expects a handshake"
    CHOSEN = "expects the first token"
    ASKED = "expects SCRAM's second token"
    CHECKS = "checks a password or a token"
    CHALLENGED = "expects an answer to the error of a token"
    CHANGES_MECHANISM = "expects a token of another mechanism than before, to refuse it"
    DONE = "has authenticated"
    FAILED = "has failed"


@dataclass(frozen=True, slots=True)
class Accepted:
    """The answer to a token. `user` is set with the last one."""

    token: bytes
    user: str = ""
    expires_at_s: float | None = None
    """The end of what the user has shown, in seconds since the epoch. None: it has none."""


@dataclass(frozen=True, slots=True)
class Challenged:
    """The error that answers an invalid token. Whatever the client sends next, it is denied."""

    token: bytes


@dataclass(frozen=True, slots=True)
class Denied:
    """The error of the last answer. The connection closes after it."""

    error: ErrorCode
    message: str
    reason: str = "wrong user or password"
    """For the operator."""
    after_challenge: bool = False
    """The client has heard before that its token is invalid."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The connection closes without an answer, as in Kafka."""

    reason: str


@dataclass(frozen=True, slots=True)
class PasswordHash:
    """The comparison with one credential. It costs as many iterations as for any other user of the cluster."""

    mechanism: str
    credential: ScramCredential
    is_users: bool
    """Whether the user has it. Otherwise it is invented, and takes the time."""
    iterations_max: int

    def fits(self, password: bytes) -> bool:
        name, credential = HASHES[self.mechanism]().name, self.credential
        salted = hashlib.pbkdf2_hmac(name, password, credential.salt, credential.iterations)
        if (rest := self.iterations_max - credential.iterations) > 0:
            hashlib.pbkdf2_hmac(name, password, credential.salt, rest)
        return hmac.compare_digest(derived(self.mechanism, salted)[0], credential.stored_key)


@dataclass(frozen=True, slots=True)
class PasswordCheck:
    """A password that is compared off the event loop. Then `checked` tells the exchange.

    Its time must not show whether there is such a user, and by which mechanism. So there is a hash for each mechanism that any
    user has, and all are computed.
    """

    user: str
    hashes: Sequence[PasswordHash]
    password: bytes

    def __repr__(self) -> str:
        return "PasswordCheck([hidden])"

    def holds(self) -> bool:
        """The first credential that the user has decides. PBKDF2 takes milliseconds: call it in a thread."""
        results = [(each.is_users, each.fits(self.password)) for each in self.hashes]
        return next((fits for is_users, fits in results if is_users), False)


@dataclass(frozen=True, slots=True)
class TokenCheck:
    """A token of OAUTHBEARER that is checked off the event loop. Then `token_checked` tells the exchange."""

    bearer: Bearer


@dataclass(frozen=True, slots=True)
class Login:
    """A client that has authenticated."""

    mechanism: str
    user: str


Outcome = Accepted | Challenged | Denied | Refused | PasswordCheck | TokenCheck


class SaslExchange:
    """That of one connection."""

    __slots__ = ("_before", "_credentials", "_mechanisms", "_named", "_nonce", "_reason", "_server", "mechanism", "state")

    def __init__(
        self,
        mechanisms: Sequence[str],
        credentials: ScramCredentials,
        nonce: Callable[[], str],
        before: Login | None = None,
    ) -> None:
        """`nonce` makes one that nobody can guess. `before`: the client authenticates again."""
        self._before = before
        self._mechanisms = mechanisms
        self._credentials = credentials
        self._nonce = nonce
        self._server: ScramServer | None = None
        """The server's side of SCRAM, once the first token is there."""
        self._named = ""
        """The user as the first token of SCRAM or PLAIN names it."""
        self._reason = ""
        """Why the token is invalid."""
        self.state = State.BEGINS
        self.mechanism = ""

    def handshake(self, mechanism: str) -> ErrorCode:
        """The error of its answer. Whatever it is but 0, the connection closes after it."""
        if self.state is not State.BEGINS:
            self.state = State.FAILED
            return ErrorCode.ILLEGAL_SASL_STATE
        if mechanism not in self._mechanisms:
            self.state = State.FAILED
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM
        changes = self._before is not None and mechanism != self._before.mechanism
        self.mechanism, self.state = mechanism, State.CHANGES_MECHANISM if changes else State.CHOSEN
        return ErrorCode.NONE

    @property
    def named_user(self) -> str:
        """Whom the client wants to be. Empty: it has not said so."""
        return self._named

    @property
    def expects_token(self) -> bool:
        return self.state in (State.CHOSEN, State.ASKED, State.CHALLENGED, State.CHANGES_MECHANISM)

    def take(self, token: bytes) -> Outcome:
        """Call it while the exchange expects a token."""
        assert self.expects_token, self.state
        if self.state is State.CHANGES_MECHANISM:
            assert self._before is not None
            self.state = State.FAILED
            return Refused(f"re-authentication by {self.mechanism} after {self._before.mechanism}")
        if self.state is State.CHALLENGED:
            self.state = State.FAILED
            return Denied(ErrorCode.SASL_AUTHENTICATION_FAILED, INVALID_TOKEN.decode(), self._reason, after_challenge=True)
        try:
            text = token.decode()
            if self.mechanism == OAUTHBEARER:
                bearer = read_bearer(text)
                self.state = State.CHECKS
                return TokenCheck(bearer)
            if self.mechanism == PLAIN:
                return self._plain(text)
            return self._first(text) if self.state is State.CHOSEN else self._final(text)
        except ValueError:
            return self._denied()

    def checked(self, user: str, *, holds: bool) -> Accepted | Denied:
        assert self.state is State.CHECKS, self.state
        if not holds:
            return self._denied("Authentication failed: Invalid username or password")
        return self._done(b"", user)

    def token_checked(self, bearer: Bearer, outcome: ValidToken | InvalidToken) -> Accepted | Challenged | Denied:
        assert self.state is State.CHECKS, self.state
        if isinstance(outcome, InvalidToken):
            self.state, self._reason = State.CHALLENGED, f"invalid token: {outcome.reason}"
            return Challenged(INVALID_TOKEN)
        if bearer.acting_as not in ("", outcome.user):
            message = f"requested an authorization id ({bearer.acting_as}) that is different from the token's principal name"
            return self._denied(f"Authentication failed: Client {message} ({outcome.user})", "another authorization id")
        return self._done(b"", outcome.user, outcome.expires_at_s)

    def _plain(self, text: str) -> Denied | PasswordCheck:
        """RFC 4616, with the refusals of Kafka."""
        parts = text.split("\0")
        if len(parts) != 3:
            return self._denied(f"Invalid SASL/PLAIN response: expected 3 tokens, got {min(len(parts), 4)}")
        acting_as, user, password = parts
        if not user:
            return self._denied("Authentication failed: username not specified")
        if not password:
            return self._denied("Authentication failed: password not specified")
        if acting_as not in ("", user):
            return self._denied(OF_ANOTHER_USER)
        if len(user) > NAME_BYTES_MAX or len(password.encode()) > PASSWORD_BYTES_MAX:
            return self._denied("Authentication failed: Invalid username or password")
        self._named, self.state = user, State.CHECKS
        known = self._credentials
        used = [each for each in (SCRAM_SHA_512, SCRAM_SHA_256) if known.iterations_max(each)] or [SCRAM_SHA_256]
        hashes = []
        for mechanism in used:
            credential = known.get(mechanism, user)
            invented = known.invented(mechanism, user)
            hashes.append(
                PasswordHash(mechanism, credential or invented, credential is not None, known.iterations_max(mechanism))
            )
        return PasswordCheck(user, hashes, password.encode())

    def _first(self, text: str) -> Accepted | Denied:
        acting_as, self._named = _names_in(text)
        if acting_as not in ("", self._named):  # whether there is such a user or not, so nobody learns that
            return self._denied(OF_ANOTHER_USER)
        from services.gateway.core.scram_server import ScramServer

        self._server = ScramServer(self.mechanism, self._nonce(), self._credential_of)
        answer = self._server.first(text)
        self.state = State.ASKED
        return Accepted(answer.encode())

    def _final(self, text: str) -> Accepted | Denied:
        assert self._server is not None, "the first token made it"
        return self._done(self._server.final(text).encode(), self._named)

    def _done(self, token: bytes, user: str, expires_at_s: float | None = None) -> Accepted | Denied:
        if self._before is not None and user != self._before.user:
            change = f"from User.{self._before.user}: User.{user}"
            return self._denied(f"Cannot change principals during re-authentication {change}", "another user than before")
        if user == ANONYMOUS_NAME:
            return self._denied(reason="ANONYMOUS is the name of clients that have not authenticated")
        self.state = State.DONE
        return Accepted(token, user, expires_at_s)

    def _credential_of(self, user: str) -> ScramCredential:
        """`user` as SASLprep leaves it. One that it changes is nobody, or a client could be let in as somebody else.

        What is invented is for the name as the client sent it: by two names that SASLprep makes one it could else learn whether
        that is a user. It is made for known users too, or its time would show who exists.
        """
        invented = self._credentials.invented(self.mechanism, self._named)
        known = self._credentials.get(self.mechanism, user) if user == self._named else None
        return known or invented

    def _denied(self, message: str = "", reason: str = "wrong user or password") -> Denied:
        self.state = State.FAILED
        act = "authentication" if self._before is None else "re-authentication"
        vague = f"Authentication failed during {act} due to invalid credentials with SASL mechanism {self.mechanism}"
        return Denied(ErrorCode.SASL_AUTHENTICATION_FAILED, message or vague, reason)


def session_ms(session_s_max: float, expires_at_s: float | None, now_s: float) -> int | None:
    """The lifetime of a session, as Kafka reckons it. None: it does not end."""
    ends = [session_s_max] if session_s_max else []
    if expires_at_s is not None:
        ends.append(expires_at_s - now_s)
    return round(max(0.0, min(SESSION_S_MAX, *ends)) * 1000) if ends else None


def _names_in(first: str) -> tuple[str, str]:
    """The authorization id and the user of SCRAM's first token. "" where there is none, or where it is malformed.

    As in Kafka's ScramSaslServer, the id is compared as it was sent, and the user's name without its escapes.
    """
    flag, _, rest = first.partition(",")
    acting_as, _, bare = rest.partition(",")
    name = bare.partition(",")[0]
    user = name[2:].replace("=2C", ",").replace("=3D", "=") if name.startswith("n=") else ""
    return (acting_as[2:] if flag in ("n", "y") and acting_as.startswith("a=") else ""), user
