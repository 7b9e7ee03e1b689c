"""The TLS that a process speaks with etcd. Its certificate's common name is etcd's user of it (docs/adr/0037)."""

import asyncio
import logging
import ssl
from collections.abc import Sequence
from typing import NamedTuple

import grpc

from libs.der import Malformed, expires_at
from libs.followed_files import FollowedFiles, keep_looking
from libs.lean_dataclass import dataclass
from libs.pem_files import Unusable, first_certificate, load_own, read_pem, trust

log = logging.getLogger("metadata")


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


class EtcdTls:
    """What the connections of a process to etcd share. `follow` the files: `credentials` then are another object."""

    def __init__(self, files: TlsFiles) -> None:
        """It reads the files. Raises Unusable."""
        self._files = files
        self._watched = FollowedFiles(files.all)
        self.credentials, self.expires_at, self.for_looks = credentials_of(files)

    async def follow(self) -> None:
        """Looks at the files again and again. Those that cannot be used leave the former ones in force."""
        await keep_looking(self.look)

    async def look(self) -> None:
        try:
            credentials = await asyncio.to_thread(self._changed)
        except Unusable as error:
            log.warning("new certificate for etcd not used", extra={"fields": {"reason": str(error)}})
            return
        if credentials is not None:
            self.credentials, self.expires_at, self.for_looks = credentials
            log.info("certificate for etcd read again", extra={"fields": {"path": self._files.certificate or self._files.ca}})

    def _changed(self) -> Credentials | None:
        """In a thread. None: the files are as they were, or have been refused before. Raises Unusable."""
        return credentials_of(self._files) if self._watched.changed() else None


def credentials_of(files: TlsFiles) -> Credentials:
    """Raises Unusable. gRPC would tell of unusable files at a handshake only, and of a key without its certificate not at
    all."""
    authorities = read_pem(files.ca)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trust(context, files.ca)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if not files.certificate:
        return Credentials(grpc.ssl_channel_credentials(authorities), 0.0, context)
    certificate, key = read_pem(files.certificate), read_pem(files.key)
    load_own(context, files.certificate, files.key)
    try:
        end = expires_at(first_certificate(files.certificate))
    except Malformed as error:
        raise Unusable(f"the certificate in {files.certificate} cannot be read: {error}") from error
    return Credentials(grpc.ssl_channel_credentials(authorities, key, certificate), end, context)
