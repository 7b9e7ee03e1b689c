"""One connection with TLS on a raw non-blocking socket. It differs from `SocketStream` in what a read and a write are.

The handshake computes in a thread (`tls_handshakes.py`). Afterwards OpenSSL decrypts and encrypts on the event loop, in place.
Two rules of OpenSSL shape this file. A write that the socket did not take must be repeated with the same bytes. A read may leave
decrypted bytes in OpenSSL, which epoll does not see.
"""

import contextlib
import logging
import os
import socket
import ssl
from collections.abc import Callable
from typing import Final

from libs.rpc.files.disk_readers import DiskReaders
from libs.rpc.transport.descriptors import Descriptors
from libs.rpc.transport.socket_stream import FileRange, SocketStream
from libs.rpc.transport.tls_handshakes import Outcome, Step
from libs.rpc.transport.tls_server import CHUNK, TlsServer, uris_of
from libs.rpc.transport.transport import HandshakeFailed, Receiver, TlsSession

log = logging.getLogger("network")

HANDSHAKE_RECORD: Final = 0x16
"""The first byte of a TLS connection (RFC 8446 §5.1). A request of Kafka's begins with a length, and so with 0."""
PEEKED: Final = 4
_REASONS: Final = {
    "HTTP_REQUEST": "the client speaks HTTP",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has no certificate, and needs one",
    "UNSUPPORTED_PROTOCOL": "the client's versions of TLS are not enabled",
    "NO_SHARED_CIPHER": "the client and the gateway have no cipher in common",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust the authority of the gateway's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client does not accept the gateway's certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client does not accept the gateway's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the client takes the gateway's certificate for expired",
}


class TlsStream(SocketStream):
    """See `transport.Stream`. `bytes_sent` counts what was given to OpenSSL and has left, before encryption."""

    __slots__ = ("_deadline", "_is_secured", "_offered", "_ssl", "_step", "_tls", "_wants_read", "_wants_write")

    def __init__(self, connected: socket.socket, tls: TlsServer, *, peer: str, disks: DiskReaders) -> None:
        super().__init__(connected, peer=peer, peer_uid=None, disks=disks)
        self._tls = tls
        self._ssl: ssl.SSLSocket | None = None
        self._is_secured = False
        self._blocked = True  # nothing is sent before the handshake is complete
        self._step: Step | None = None  # of the handshake, which waits for a thread or is in it
        self._deadline: Callable[[], None] | None = None
        self._offered = 0  # bytes of the last write, which OpenSSL wants again
        self._wants_read = self._wants_write = False  # a write needs a message of the peer's, a read needs to send one

    def start(self, receiver: Receiver) -> None:
        if self.closing:
            return
        self._receiver = receiver
        self._deadline = self._loop.call_later(self._tls.handshake_s_max, self._late).cancel
        self.reading = True
        if self._tls.speaks_first:
            self._next_step()
        else:
            self._loop.add_reader(self._fd, self._hello_arrived)

    @property
    def tls(self) -> TlsSession | None:
        if self._ssl is None or not self._is_secured or self._lost:
            return None
        version, cipher = self._ssl.version(), self._ssl.cipher()
        certificate = self._ssl.getpeercert(binary_form=True)
        return TlsSession(version or "", cipher[0] if cipher is not None else "", certificate, uris_of(self._ssl))

    # The handshake

    def _hello_arrived(self) -> None:
        try:
            first = self._socket.recv(PEEKED, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._end(error)
            return
        if not first:
            self._end(None)
        elif first[0] != HANDSHAKE_RECORD:
            self._end(HandshakeFailed("the client does not speak TLS", first))
        else:
            self._loop.remove_reader(self._fd)
            self._next_step()

    def _next_step(self) -> None:
        is_new = self._ssl is None
        if self._ssl is None:
            try:
                # Here: `ssl` closes the socket of a peer that is gone, and its descriptor may be another connection's at once.
                self._ssl = self._socket = self._tls.wrap(self._socket)
            except OSError as error:
                self._end(HandshakeFailed(_sentence(error)))
                return
        self._step = Step(self._ssl.do_handshake, self._shaken)  # in a thread, while the event loop does not touch the socket
        self._tls.handshakes.add(self._step, is_new=is_new)

    def _shaken(self, outcome: Outcome) -> None:
        self._step = None
        if self._lost:
            self._socket.close()
        elif outcome is None:
            self._secured()
        elif isinstance(outcome, ssl.SSLWantReadError):
            self._loop.add_reader(self._fd, self._may_step)
        elif isinstance(outcome, ssl.SSLWantWriteError):
            self._loop.add_writer(self._fd, self._may_step)
        else:
            self._end(HandshakeFailed(_sentence(outcome)))

    def _may_step(self) -> None:
        self._loop.remove_reader(self._fd)
        self._loop.remove_writer(self._fd)
        self._next_step()

    def _late(self) -> None:
        if self._step is not None:  # it waits for us, and not for its client
            self._deadline = self._loop.call_later(self._tls.handshake_s_max, self._late).cancel
        else:
            self._end(HandshakeFailed(f"the handshake took longer than {self._tls.handshake_s_max:g} s"))

    def _secured(self) -> None:
        self._is_secured, self._blocked = True, False
        self._cancel_deadline()
        if self.on_secured is not None:
            try:
                self.on_secured()
            except Exception as error:
                log.exception("receiver failed", extra={"fields": {"peer": self.peer}})
                self._end(error)
        if self._lost:
            return
        if self.reading:
            self._loop.add_reader(self._fd, self._readable)
        if self._queue or self.closing:
            self.flush()

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline()
            self._deadline = None

    # Reading

    def pause_reading(self) -> None:
        if self._is_secured:
            super().pause_reading()
        elif self.reading:
            self.reading = False
            if self._ssl is None and self._step is None:
                self._loop.remove_reader(self._fd)  # not even a handshake begins

    def resume_reading(self) -> None:
        if self._is_secured:
            super().resume_reading()
            if self.reading and self._ssl is not None and self._ssl.pending():
                self._loop.call_soon(self._read_on)
        elif not self.reading and not self.closing:
            self.reading = True
            if self._ssl is None and self._step is None:
                self._loop.add_reader(self._fd, self._hello_arrived)

    def _read_on(self) -> None:
        """Reads what is in OpenSSL."""
        if self.reading:
            self._readable()

    def _readable(self) -> None:
        receiver, tls = self._receiver, self._ssl
        assert receiver is not None
        assert tls is not None, "it is read once the handshake is complete"
        self.receives += 1
        self._in_turn = True
        self._message_may_have_come()
        try:
            buffer = receiver.get_buffer()
            size, received = len(buffer), 0
            ended, reason = False, None
            try:
                while received < size:
                    nbytes = tls.recv_into(buffer[received:])
                    if not nbytes:
                        ended = True
                        break
                    received += nbytes
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLWantWriteError:
                self._wants_write = True
            except OSError as error:
                ended, reason = True, error
            del buffer  # the receiver's chunk is free for reuse only when no view of it is left
            if received:
                receiver.buffer_updated(received)
            if ended:
                self._end(reason)
            elif received == size and self.reading and tls.pending():
                self._loop.call_soon(self._read_on)
        except Exception as error:
            # The fault is the receiver's own. It must not end the other connections.
            log.exception("receiver failed", extra={"fields": {"peer": self.peer}})
            self._end(error)
        finally:
            self._in_turn = False
        if self._wants_write and not self._blocked and not self._lost:
            self._blocked = True
            self._loop.add_writer(self._fd, self.flush)
        if (self._queue or self._sent_early) and not self._blocked and not self._warming:
            self.flush()

    def _message_may_have_come(self) -> None:
        if self._wants_read:
            self._wants_read = self._blocked = False

    # Writing

    def flush(self) -> None:
        if not self._is_secured or self._wants_read:
            return
        if self._wants_write:
            self._wants_write = False
            self._loop.call_soon(self._read_on)
        super().flush()
        if self._wants_read and not self._lost:
            # The socket has room, so a wait for it would spin. `_readable` goes on.
            self._loop.remove_writer(self._fd)

    def _send_buffers(self) -> None:
        self._encrypt()

    def _send_file(self, item: FileRange) -> None:
        self._encrypt()

    def _encrypt(self) -> None:
        """Encrypts and sends the head of the queue. Raises BlockingIOError if the socket does not take it all."""
        tls, head = self._ssl, self._queue[0]
        assert tls is not None, "nothing is sent before the handshake is complete"
        if not isinstance(head, (FileRange, Descriptors)) and len(head) >= CHUNK:
            joined = memoryview(head)[:CHUNK]
        else:
            joined = self._tls.scratch[: self._join()]
        sent = 0
        if joined:
            self.sends += 1
            self._offered = max(self._offered, len(joined))
            try:
                sent = tls.send(joined)
            except ssl.SSLWantWriteError:
                raise BlockingIOError from None
            except ssl.SSLWantReadError:
                self._wants_read = True
                raise BlockingIOError from None
            self._offered = 0
        if not self._warming:
            self._left(sent)

    def _join(self) -> int:
        """Joins the head of the queue in the scratch buffer, and returns its length. 0: a thread reads a file range first."""
        scratch, length = self._tls.scratch, 0
        for item in self._queue:
            assert not isinstance(item, Descriptors), "a TCP connection carries none"
            if isinstance(item, FileRange):
                room = min(item.stop - item.position, CHUNK - length)
                if room <= 0:
                    continue
                now = self._loop.time()
                if not item.is_cached(room, now):
                    if length and length >= self._offered:
                        return length
                    self._warm(item, room, now)
                    return 0
                read = os.preadv(item.fd, [scratch[length : length + room]], item.position)
                if read < room:
                    # The length was promised already, so the connection cannot go on.
                    raise OSError("the file is shorter than the range")
                length += read
            else:
                room = min(len(item), CHUNK - length)
                scratch[length : length + room] = memoryview(item)[:room]
                length += room
            if length == CHUNK:
                break
        return length

    def _left(self, sent: int) -> None:
        """Takes what was sent off the queue."""
        self.bytes_sent += sent
        self.pending_bytes -= sent
        whole, done = 0, []
        for item in self._queue:
            if isinstance(item, FileRange):
                part = min(item.stop - item.position, sent)
                item.position += part
                self.pending_file_bytes -= part
                if item.position < item.stop:
                    break
                self._specials -= 1
                if item.on_sent is not None:
                    done.append(item.on_sent)
            else:
                part = len(item)  # type: ignore[arg-type]
                if part > sent:
                    if sent:
                        self._queue[whole] = memoryview(item)[sent:]  # type: ignore[arg-type]
                    break
            sent -= part
            whole += 1
        del self._queue[:whole]
        for on_sent in done:
            self._outbox.wakeful = True
            on_sent(True)

    # The end

    def _end(self, reason: Exception | None) -> None:
        self._cancel_deadline()
        if not self._lost and not self._is_secured and self._step is None:
            self._loop.remove_reader(self._fd)
            self._loop.remove_writer(self._fd)
        super()._end(reason)

    def _close_socket(self, reason: Exception | None) -> None:
        step = self._step
        if step is not None and not self._tls.handshakes.withdraw(step):
            return  # a thread uses it, and `_shaken` closes it
        if self._ssl is not None and reason is None and self._is_secured:
            with contextlib.suppress(OSError, ValueError):
                self._ssl.unwrap()  # tells the other end that this is all
        self._socket.close()


def _sentence(outcome: Exception) -> str:
    """What an operator should know of a handshake that has failed."""
    if isinstance(outcome, ssl.SSLCertVerificationError):
        return f"the client's certificate is not trusted: {outcome.verify_message}"
    if isinstance(outcome, (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError)):
        return "the client hung up during the handshake"
    if isinstance(outcome, ssl.SSLError) and outcome.reason:
        return _REASONS.get(outcome.reason) or outcome.reason.replace("_", " ").lower()
    return str(outcome)
