"""The gate of a connection whose client must authenticate first (SASL), in the place of the one that serves requests.

Only ApiVersions, SaslHandshake and SaslAuthenticate pass it. Once the client has authenticated, the connection gets the other
gate, so requests cost what they cost without authentication. Tokens and passwords are never logged, and errors do not show them.

Where sessions end (KIP-368), the connection keeps this gate. It hands requests to the other one until the session's end, and lets
the client authenticate again. A request after the end closes the connection.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import inf
from typing import TYPE_CHECKING, Final, Protocol

from libs.clock import Clock
from libs.cluster.scram_credentials import ScramCredentials
from libs.telemetry.logs import fields
from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.headers import read_request_header
from libs.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from libs.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from libs.wire.primitives import ProtocolError, Reader
from services.gateway.core.authentication import (
    OAUTHBEARER,
    REAUTHENTICATION_S_MIN,
    Accepted,
    Challenged,
    Denied,
    Login,
    PasswordCheck,
    Refused,
    SaslExchange,
    State,
    TokenCheck,
    session_ms,
)
from services.gateway.core.denial_delays import DenialDelays
from services.gateway.core.oauthbearer_settings import Oauthbearer
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.exchange import Exchange
from services.gateway.gateway_meters import GatewayMeters
from services.gateway.handlers import SERVED
from services.gateway.requests.gate import Gate
from services.gateway.requests.request_log import LOGGED, log_begun

if TYPE_CHECKING:
    from services.gateway.peers.signing_keys import SigningKeyReader
    from services.gateway.requests.bearer_tokens import TokenVerifier

log = logging.getLogger("network")

HANDSHAKE: Final = int(ApiKey.SASL_HANDSHAKE)
AUTHENTICATE: Final = int(ApiKey.SASL_AUTHENTICATE)
API_VERSIONS: Final = int(ApiKey.API_VERSIONS)

PASSWORD_THREADS: Final = 1
"""PBKDF2 takes a thread for milliseconds. More threads would take more cores from those who have authenticated."""
NONCE_BYTES: Final = 24
UNAUTHENTICATED_FRAME_BYTES_MAX: Final = 16_384
"""The longest request of a client that has not authenticated, and of one that authenticates again."""


class Authenticating(Protocol):
    """The connection, as this gate sees it."""

    def authenticated(self, user: str, *, keeps_gate: bool) -> None:
        """Serves requests from now on, as those of this user. `keeps_gate`: they still pass the gate of authentication."""


class CurrentCredentials(Protocol):
    @property
    def current(self) -> ScramCredentials | None: ...


class SaslListener:
    """What all connections to the listener share. Call `close` at the end."""

    def __init__(
        self,
        mechanisms: Sequence[str],
        credentials: CurrentCredentials,
        meters: GatewayMeters,
        *,
        denial_delay_s: float,
        clock: Clock,
        session_s_max: float = 0.0,
        oauthbearer: Oauthbearer | None = None,
    ) -> None:
        """`denial_delay_s`: Kafka's connection.failed.authentication.delay.ms. Who guesses passwords waits for it, and longer.
        `session_s_max`: Kafka's connections.max.reauth.ms. 0.0: sessions do not end, but for tokens that expire.
        `oauthbearer`: if that mechanism is enabled."""
        import services.gateway.core.scram_server  # noqa: F401  now, and not when the first client waits for it

        self.mechanisms = mechanisms
        self.credentials = credentials
        self.meters = meters
        self.denial_delays = DenialDelays(denial_delay_s)
        self.session_s_max = session_s_max
        self.passwords = ThreadPoolExecutor(PASSWORD_THREADS, "passwords")
        self.loop = asyncio.get_running_loop()
        self._clock = clock
        self.signing_keys: SigningKeyReader | None = None
        self.tokens: TokenVerifier | None = None
        if oauthbearer is not None:
            self.signing_keys, self.tokens = self._for_tokens(oauthbearer)

    def _for_tokens(self, oauthbearer: Oauthbearer) -> "tuple[SigningKeyReader, TokenVerifier]":
        # Here, since few gateways need what these import.
        from services.gateway.peers.signing_keys import SigningKeyReader
        from services.gateway.requests.bearer_tokens import TokenVerifier

        keys = SigningKeyReader(oauthbearer.source, oauthbearer.refresh_s, self.meters)
        return keys, TokenVerifier(keys, oauthbearer.rules, self.passwords, self.now_s)

    def now_s(self) -> float:
        """Seconds since the epoch."""
        return self._clock.wall_ms() / 1000

    def start(self) -> None:
        if self.signing_keys is not None:
            self.signing_keys.start()

    def close(self) -> None:
        if self.signing_keys is not None:
            self.signing_keys.close()
        self.passwords.shutdown(wait=False, cancel_futures=True)


class AuthenticationGate:
    """The gate of one connection."""

    def __init__(self, listener: SaslListener, gate: Gate, connection: Authenticating) -> None:
        self._listener = listener
        self._gate = gate
        self._connection = connection
        self._sasl: SaslExchange | None = None
        """The exchange that goes on."""
        self._headerless = False
        """Whether its tokens are whole frames, without a header of Kafka's. SaslHandshake 0 asks for that."""
        self._login: Login | None = None
        self._served_until = 0.0
        """Requests that arrive before this loop time go to the other gate. 0.0: none do, since an exchange goes on."""
        self._reauthentication_at = -inf
        """The loop time at which the last one began."""

    def begin(self, exchange: Exchange) -> None:
        """Begins a request, once. Whatever is out of order ends the connection."""
        if exchange.received_at < self._served_until and exchange.api_key != HANDSHAKE:
            self._gate.begin(exchange)
            return
        frame = exchange.frame
        assert frame is not None, "a request begins once"
        if self._login is not None and self._sasl is None:
            if exchange.api_key != HANDSHAKE or not self._may_reauthenticate():
                self._begin_without(exchange)
                return
            self._served_until = 0.0
        elif exchange.api_key == API_VERSIONS and (self._sasl is None or self._sasl.state is State.BEGINS):
            self._gate.begin(exchange)
            return
        if len(frame) > UNAUTHENTICATED_FRAME_BYTES_MAX:
            exchange.frame = None
            exchange.close("frame", f"{len(frame)} bytes in an authentication")
            return
        if self._headerless and self._sasl is not None:
            exchange.frame, exchange.api_key = None, AUTHENTICATE
            self._guarded(exchange, lambda: self._authenticate(exchange, None, bytes(frame)))
            return
        self._begin_exchange(exchange, frame)

    def client_gone(self, exchange: Exchange) -> None:
        """Tells of a request that has not begun. Nobody waits for one that its client may not send."""
        if exchange.received_at < self._served_until:
            self._gate.client_gone(exchange)

    def _may_reauthenticate(self) -> bool:
        now = self._listener.loop.time()
        if now - self._reauthentication_at < REAUTHENTICATION_S_MIN:
            return False
        self._reauthentication_at = now
        return True

    def _begin_without(self, exchange: Exchange) -> None:
        """A request of a client that has authenticated, and may not or does not authenticate again."""
        if exchange.received_at < self._served_until:
            self._gate.begin(exchange)
        else:
            exchange.frame = None
            exchange.close("expired", "a request after the end of the session")

    def _begin_exchange(self, exchange: Exchange, frame: memoryview) -> None:
        exchange.frame = None
        served = SERVED.get(exchange.api_key)
        if exchange.api_key not in (HANDSHAKE, AUTHENTICATE) or served is None:
            exchange.close("unauthenticated", "a request before its client has authenticated")
            return
        try:
            reader = Reader(frame)
            header = read_request_header(reader)
            exchange.api_version, exchange.correlation_id = header.api_version, header.correlation_id
            exchange.client_id = exchange.connection.client_id = header.client_id
            if LOGGED.trace:
                log_begun(exchange, by_shortcut=False)
            if not served.api.serves(header.api_version):
                exchange.close("version", f"{header.api_key.name} version {header.api_version}")
                return
            request = served.api.read_request(reader, header.api_version)
            reader.expect_end()
        except ProtocolError as error:
            exchange.close("malformed", str(error))
            return
        if isinstance(request, SaslHandshakeRequest):
            self._guarded(exchange, lambda: self._handshake(exchange, served, request))
        else:
            assert isinstance(request, SaslAuthenticateRequest)
            self._guarded(exchange, lambda: self._authenticate(exchange, served, bytes(request.auth_bytes)))

    def _guarded(self, exchange: Exchange, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:
            # Without its text and its traceback, which may quote a token.
            log.error(
                "authentication failed unexpectedly", extra=fields(kind=type(error).__name__, peer=exchange.connection.peer)
            )
            exchange.close("internal", "unexpected exception")

    def _handshake(self, exchange: Exchange, served: ServedApi, request: SaslHandshakeRequest) -> None:
        credentials = self._listener.credentials.current
        if credentials is None and request.mechanism != OAUTHBEARER:
            exchange.close("unauthenticated", "the credentials were not read yet, since the metadata store does not answer")
            return
        if self._sasl is None:
            users = credentials or ScramCredentials(b"")
            self._sasl = SaslExchange(self._listener.mechanisms, users, _nonce, self._login)
        error = self._sasl.handshake(request.mechanism)
        self._headerless = exchange.api_version == 0
        response = SaslHandshakeResponse(error, [] if error is ErrorCode.ILLEGAL_SASL_STATE else [*self._listener.mechanisms])
        if error:
            self._fail(exchange, error)
        exchange.finish(served.written(exchange.api_version, exchange.correlation_id, response))
        if error:
            exchange.connection.close("unauthenticated", error.name)

    def _authenticate(self, exchange: Exchange, served: ServedApi | None, token: bytes) -> None:
        """`served`: None if the token came without a header, as its answer then goes."""
        sasl = self._sasl
        if sasl is None or not sasl.expects_token:
            exchange.close("unauthenticated", "SaslAuthenticate out of order")
            return
        outcome = sasl.take(token)
        if isinstance(outcome, PasswordCheck):
            task = self._listener.loop.create_task(self._check(sasl, outcome, exchange, served), name="password check")
            exchange.on_hang_up = task.cancel
        elif isinstance(outcome, TokenCheck):
            task = self._listener.loop.create_task(self._check_token(sasl, outcome, exchange, served), name="token check")
            exchange.on_hang_up = task.cancel
        elif isinstance(outcome, Refused):
            self._count_failure()
            exchange.close("authentication", outcome.reason)
        else:
            self._answer(exchange, served, outcome)

    async def _check(self, sasl: SaslExchange, check: PasswordCheck, exchange: Exchange, served: ServedApi | None) -> None:
        holds = await self._listener.loop.run_in_executor(self._listener.passwords, check.holds)
        self._answer(exchange, served, sasl.checked(check.user, holds=holds))

    async def _check_token(self, sasl: SaslExchange, check: TokenCheck, exchange: Exchange, served: ServedApi | None) -> None:
        tokens = self._listener.tokens
        assert tokens is not None, "the mechanism is enabled"
        outcome = await tokens.verify(check.bearer.token)
        self._answer(exchange, served, sasl.token_checked(check.bearer, outcome))

    def _answer(self, exchange: Exchange, served: ServedApi | None, outcome: Accepted | Challenged | Denied) -> None:
        if isinstance(outcome, Denied):
            self._deny_later(exchange, served, outcome)
            return
        response = SaslAuthenticateResponse(auth_bytes=outcome.token)
        if isinstance(outcome, Challenged):
            self._count_failure()  # now, since clients may hang up
        elif outcome.user:
            response.session_lifetime_ms = self._logged_in(outcome.user, outcome.expires_at_s)
        if served is None:
            exchange.finish(len(outcome.token).to_bytes(4) + outcome.token)
        else:
            exchange.finish(served.written(exchange.api_version, exchange.correlation_id, response))

    def _deny_later(self, exchange: Exchange, served: ServedApi | None, denied: Denied) -> None:
        if not denied.after_challenge:
            self._count_failure()
        self._fail(exchange, denied.error)
        response = SaslAuthenticateResponse(error_code=denied.error, error_message=denied.message)
        # Without a header there is no error code: the connection closes.
        written = served.written(exchange.api_version, exchange.correlation_id, response) if served is not None else None
        listener, user = self._listener, self._sasl.named_user if self._sasl is not None else ""
        delay_s = listener.denial_delays.next_s(exchange.connection.client_host, user, listener.loop.time())
        timer = listener.loop.call_later(delay_s, self._deny, exchange, written, denied.reason)
        exchange.on_hang_up = timer.cancel

    def _logged_in(self, user: str, expires_at_s: float | None) -> int:
        """Opens the session, and returns its lifetime in milliseconds. 0: it does not end, or has ended."""
        assert self._sasl is not None, "it has accepted the last token"
        listener = self._listener
        lifetime_ms = session_ms(listener.session_s_max, expires_at_s, listener.now_s())
        if lifetime_ms is not None:
            self._served_until = listener.loop.time() + lifetime_ms / 1000
        if self._login is None:
            listener.meters.authentications += 1
            self._connection.authenticated(user, keeps_gate=lifetime_ms is not None)
        else:
            listener.meters.reauthentications += 1
        self._login, self._sasl = Login(self._sasl.mechanism, user), None
        return lifetime_ms or 0

    def _count_failure(self) -> None:
        if self._login is None:
            self._listener.meters.failed_authentications += 1
        else:
            self._listener.meters.failed_reauthentications += 1

    def _deny(self, exchange: Exchange, written: bytes | bytearray | None, reason: str) -> None:
        if written is not None:
            exchange.finish(written)
        assert self._sasl is not None, "it has failed"
        exchange.connection.close("authentication", f"{self._sasl.mechanism}: {reason}", self._sasl.named_user)

    def _fail(self, exchange: Exchange, error: ErrorCode) -> None:
        exchange.error = error
        self._listener.meters.failed(exchange.api_key, error)


def _nonce() -> str:
    return secrets.token_urlsafe(NONCE_BYTES)
