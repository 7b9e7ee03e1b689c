"""A TLS client that makes records itself, with the keys of its connection: `ssl` cannot be made to misbehave."""

import hmac
import socket
import ssl
import struct
from pathlib import Path
from typing import Self

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

ALERT, HANDSHAKE, DATA = 21, 22, 23
_KEY_UPDATE = b"\x18\0\0\x01\0"
CLIENT_HELLO = b"\x01\0\0\0"
_CIPHERS_12 = "ECDHE-ECDSA-AES128-GCM-SHA256"


class RecordClient:
    """A client whose handshake is complete. It has sent no data yet."""

    def __init__(self, connected: socket.socket, records: "Records13 | Records12") -> None:
        self.socket = connected
        self.records = records

    @classmethod
    def shake_hands(cls, connected: socket.socket, context: ssl.SSLContext, directory: Path, *, version: ssl.TLSVersion) -> Self:
        """It blocks. The keys are kept in the directory meanwhile."""
        keys = directory / "keys"
        context.keylog_filename = str(keys)
        context.minimum_version = context.maximum_version = version
        context.set_ciphers(_CIPHERS_12)
        hello = _shake_hands(connected, context)
        lines = [line.split() for line in keys.read_text(encoding="ascii").splitlines() if line[0] != "#"]
        secrets = {label: (bytes.fromhex(client_random), bytes.fromhex(secret)) for label, client_random, secret in lines}
        keys.unlink()
        connected.setblocking(False)
        if version is ssl.TLSVersion.TLSv1_3:
            return cls(connected, Records13(secrets["CLIENT_TRAFFIC_SECRET_0"][1]))
        client_random, master_secret = secrets["CLIENT_RANDOM"]
        return cls(connected, Records12(master_secret, hello[11:43] + client_random))


def _shake_hands(connected: socket.socket, context: ssl.SSLContext) -> bytes:
    """It returns what the server has said first, and blocks."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    first = b""
    while True:
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            connected.sendall(outgoing.read())
            arrived = connected.recv(65_536)
            first = first or arrived
            incoming.write(arrived)
        else:
            connected.sendall(outgoing.read())
            return first


class Records13:
    """What a client of TLS 1.3 encrypts, with TLS_AES_256_GCM_SHA384 (RFC 8446 §5.2 and §7)."""

    def __init__(self, secret: bytes) -> None:
        self._use(secret)

    def _use(self, secret: bytes) -> None:
        self._secret, self._sequence = secret, 0
        self._cipher, self._iv = AESGCM(self._derived(b"key", 32)), int.from_bytes(self._derived(b"iv", 12))

    def _derived(self, label: bytes, length: int) -> bytes:
        """HKDF-Expand-Label. One block is enough."""
        info = struct.pack(">HB", length, len(label) + 6) + b"tls13 " + label + b"\0\x01"
        return hmac.digest(self._secret, info, "sha384")[:length]

    def record(self, kind: int, content: bytes) -> bytes:
        nonce = (self._iv ^ self._sequence).to_bytes(12)
        header = struct.pack(">BHH", DATA, 0x0303, len(content) + 17)
        self._sequence += 1
        return header + self._cipher.encrypt(nonce, content + bytes([kind]), header)

    def key_update(self) -> bytes:
        """A record of 27 bytes. The next one has other keys."""
        record = self.record(HANDSHAKE, _KEY_UPDATE)
        self._use(self._derived(b"traffic upd", 48))
        return record


class Records12:
    """What a client of TLS 1.2 encrypts, with AES-128-GCM (RFC 5246 §5 and §6, RFC 5288)."""

    def __init__(self, master_secret: bytes, randoms: bytes) -> None:
        """`randoms`: the server's, then the client's."""
        seed = chained = b"key expansion" + randoms
        block = b""
        while len(block) < 40:
            chained = hmac.digest(master_secret, chained, "sha256")
            block += hmac.digest(master_secret, chained + seed, "sha256")
        self._cipher, self._iv = AESGCM(block[:16]), block[32:36]
        self._sequence = 1  # the message that ended the handshake was the first

    def record(self, kind: int, content: bytes) -> bytes:
        number = self._sequence.to_bytes(8)
        self._sequence += 1
        authenticated = number + struct.pack(">BHH", kind, 0x0303, len(content))
        encrypted = number + self._cipher.encrypt(self._iv + number, content, authenticated)
        return struct.pack(">BHH", kind, 0x0303, len(encrypted)) + encrypted
