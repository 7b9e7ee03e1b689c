"""The TLS that a process speaks with etcd. Its certificate's common name is etcd's user of it (docs/adr/0037)."""

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

import grpc

from libs.der import Malformed, expires_at
from libs.followed_files import FollowedFiles, keep_looking
from libs.host_port import split_port
from libs.lean_dataclass import dataclass
from libs.pem_files import Unusable, first_certificate, load_own, read_pem, trust

log = logging.getLogger("metadata")

ANSWERS_WITHIN_S: Final = 3.0
UNANSWERED_S_MAX = 60.0
"""After so long without any member that answers, new files are used untried."""
_SPEAKS_FIRST_S: Final = 1.0
_HTTP2_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: the authorities whose etcd is trusted, the own certificate with its chain, and its key. One file may have the
    latter two. Without `certificate` the process stays anonymous."""

    ca: str
    certificate: str = ""
    key: str = ""

    @property
    def all(self) -> Sequence[str]:
        return [path for path in (self.ca, self.certificate, self.key) if path]


class Credentials(NamedTuple):
    for_channels: grpc.ChannelCredentials
    expires_at: float
    """The end of the own certificate's validity, in seconds since the epoch. 0.0: there is none."""
    for_looks: ssl.SSLContext
    """For handshakes that look at a member's certificate. It trusts any, also an expired one: nothing is sent or believed."""
    for_trials: ssl.SSLContext
    """For handshakes that try whether a member takes the certificate, and is trusted."""


class EtcdTls:
    """What the connections of a process to etcd share. `follow` the files: `credentials` then are another object."""

    def __init__(self, files: TlsFiles, members: Sequence[str] = ()) -> None:
        """It reads the files. `members`: the addresses of those who have to take new ones. Raises Unusable."""
        self._files, self._members = files, members
        self._watched = FollowedFiles(files.all)
        self._untaken: Credentials | None = None
        """Those of the files, if no member has taken them."""
        self._untried_since = 0.0
        self._told = ""
        self.credentials, self.expires_at, self.for_looks, _ = credentials_of(files)

    async def follow(self) -> None:
        """Looks at the files again and again. Those that cannot be used leave the former ones in force."""
        await keep_looking(self.look)

    async def look(self) -> None:
        try:
            credentials = await asyncio.to_thread(self._changed)
        except Unusable as error:
            if str(error) != self._told:
                self._told = str(error)
                log.warning("new certificate for etcd not used", extra={"fields": {"reason": str(error)}})
            return
        if credentials is not None:
            self.credentials, self.expires_at, self.for_looks, _ = credentials
            log.info("certificate for etcd read again", extra={"fields": {"path": self._files.certificate or self._files.ca}})

    def _changed(self) -> Credentials | None:
        """In a thread. None: the files are as they were, or no member answers. Those that members refuse are tried again at each
        look: members may trust another authority later. Raises Unusable."""
        if self._watched.changed():
            self._untaken, self._told, self._untried_since = None, "", time.monotonic()
            self._untaken = credentials_of(self._files)
        untaken = self._untaken
        if untaken is None:
            return None
        try:
            is_taken = not self._members or _is_taken(self._members, untaken.for_trials)
        except Unusable:
            self._untried_since = time.monotonic()
            raise
        if not is_taken and time.monotonic() - self._untried_since < UNANSWERED_S_MAX:
            return None
        self._untaken = None
        return untaken


def credentials_of(files: TlsFiles) -> Credentials:
    """Raises Unusable. gRPC would tell of unusable files at a handshake only, and of a key without its certificate not at
    all."""
    authorities = read_pem(files.ca)
    for_looks, for_trials = _trusting(files.ca), _trusting(files.ca)
    for_looks.verify_mode = ssl.CERT_NONE
    for_trials.set_alpn_protocols(["h2"])
    if not files.certificate:
        return Credentials(grpc.ssl_channel_credentials(authorities), 0.0, for_looks, for_trials)
    certificate, key = read_pem(files.certificate), read_pem(files.key)
    for context in (for_looks, for_trials):
        load_own(context, files.certificate, files.key)
    try:
        end = expires_at(first_certificate(files.certificate))
    except Malformed as error:
        raise Unusable(f"the certificate in {files.certificate} cannot be read: {error}") from error
    return Credentials(grpc.ssl_channel_credentials(authorities, key, certificate), end, for_looks, for_trials)


def _trusting(authorities: str) -> ssl.SSLContext:
    """Raises Unusable."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # gRPC checks the name, and new files change nothing about it
    trust(context, authorities)
    return context


def _is_taken(members: Sequence[str], context: ssl.SSLContext) -> bool:
    """Shakes hands with one member after the other, until one takes the certificate. It may wait for seconds. False: none
    answers. Raises Unusable if all that answer refuse it, or are not trusted."""
    refusals = []
    for address in members:
        refusal = _refusal(address, context)
        if refusal == "":
            return True
        if refusal is not None:
            refusals.append(f"{address}: {refusal}")
    if refusals:
        raise Unusable("; ".join(refusals))
    return False


def _refusal(address: str, context: ssl.SSLContext) -> str | None:
    """Why a connection is of no use. "": it is of use. None: the member does not answer."""
    host, port = split_port(address)
    try:
        connection = socket.create_connection((host, int(port)), ANSWERS_WITHIN_S)
    except (OSError, ValueError):
        return None
    with connection:
        try:
            connected = context.wrap_socket(connection, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            return f"etcd's certificate is not trusted: {error.verify_message}"
        except ssl.SSLEOFError:
            return None
        except ssl.SSLError as error:  # TLS 1.2
            return _told_by(error)
        except OSError:
            return None
        with connected:
            try:
                return "" if _is_answered(connected) else "etcd ends the connection"
            except TimeoutError:
                return None
            except OSError as error:
                return _told_by(error)


def _is_answered(connected: ssl.SSLSocket) -> bool:
    """Whether something comes. TLS 1.3 tells that the own certificate is refused after the handshake. Raises OSError."""
    connected.settimeout(_SPEAKS_FIRST_S)
    try:
        return bool(connected.recv(1))
    except TimeoutError:
        connected.settimeout(ANSWERS_WITHIN_S)
        connected.sendall(_HTTP2_PREFACE)
        return bool(connected.recv(1))


def _told_by(error: OSError) -> str:
    reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
    return f"etcd refuses the certificate: {(reason or str(error)).replace('_', ' ').lower()}"
