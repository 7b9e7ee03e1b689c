"""One connection with TLS on a raw non-blocking socket. It differs from `SocketStream` in what a read and a write are.

The handshake computes in a thread (`tls_handshakes.py`). Afterwards OpenSSL decrypts and encrypts on the event loop, in place.
OpenSSL never sees the socket: one read would handle all messages without data that arrive, such as the KeyUpdate of TLS 1.3 at
10 µs each, until data comes (ADR 0036). Here it gets whole records, a bounded number in a turn. epoll does not see records that
wait for the next turn.
"""

import contextlib
import logging
import os
import socket
import ssl
from collections.abc import Callable
from typing import Final, NamedTuple

from libs.rpc.files.disk_readers import DiskReaders
from libs.rpc.transport.descriptors import Descriptors
from libs.rpc.transport.socket_stream import FileRange, SocketStream
from libs.rpc.transport.tls_handshakes import Outcome, Step
from libs.rpc.transport.tls_records import DATA_MAX, RECORD_MAX, missing_bytes, whole_records
from libs.rpc.transport.tls_server import CHUNK, LAST_CHUNK, TlsServer, uris_of
from libs.rpc.transport.transport import DRIP_BYTES, Buffer, Receiver, TlsFailed, TlsSession

log = logging.getLogger("network")

HANDSHAKE_RECORD: Final = 0x16
"""The first byte of a TLS connection (RFC 8446 §5.1). A request of Kafka's begins with a length, and so with 0."""
FIRST_BYTES: Final = 4
RECORDS_A_TURN: Final = 400
"""The most records that one turn decrypts. A KeyUpdate message takes about 11 µs, and a record with data no more."""
UNPAID_RECORDS_MAX: Final = 4_096
"""The most records without data. A connection that brings more is closed: no peer has use for many."""
PAID_BY_DATA: Final = 32
"""The records without data that one with data pays for."""
HANDSHAKE_BYTES_MAX: Final = 262_144
"""OpenSSL takes certificates of at most 100 KiB."""
FLIGHT_BYTES: Final = 8_192
"""The most bytes that one step of a handshake brings. Behind its end there may be records for the first turn, beside its own."""
UNSENT_CONTROL_BYTES_MAX: Final = 65_536
"""The most bytes of alerts for a peer that does not read them."""
_NOTHING: Final = memoryview(b"")
_HUNG_UP: Final = "the client hung up during the handshake"
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


class Ended(NamedTuple):
    """A connection has nothing more to read."""

    reason: Exception | None


class TlsStream(SocketStream):
    """See `transport.Stream`. `bytes_sent` counts what has left, before encryption; `sends` does not count what has no data, and
    `receives` counts turns."""

    __slots__ = (
        "_deadline",
        "_handshake_bytes",
        "_held",
        "_incoming",
        "_is_secured",
        "_outgoing",
        "_reads_soon",
        "_sealed",
        "_sealed_bytes",
        "_sealed_data",
        "_ssl",
        "_step",
        "_tls",
        "_unpaid",
    )

    def __init__(self, connected: socket.socket, tls: TlsServer, *, peer: str, disks: DiskReaders) -> None:
        super().__init__(connected, peer=peer, peer_uid=None, disks=disks)
        self._tls = tls
        self._ssl: ssl.SSLObject | None = None
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._is_secured = False
        self._blocked = True  # nothing is sent before the handshake is complete
        self._step: Step | None = None  # of the handshake, which waits for a thread or is in it
        self._deadline: Callable[[], None] | None = None
        self._handshake_bytes = 0
        self._held = _NOTHING  # what has arrived and OpenSSL has not got yet, from the beginning of a record on
        self._reads_soon = False
        self._unpaid = 0  # records that data has not paid for
        self._sealed: list[Buffer] = []  # records that the socket has not taken yet
        self._sealed_bytes = self._sealed_data = 0  # their size, and that of their data, which heads the queue still

    def start(self, receiver: Receiver) -> None:
        if self.closing:
            return
        self._receiver = receiver
        self._deadline = self._loop.call_later(self._tls.handshake_s_max, self._late).cancel
        self.reading = True
        if self._tls.speaks_first:
            self._next_step()
        else:
            self._loop.add_reader(self._fd, self._flight_arrived)

    @property
    def tls(self) -> TlsSession | None:
        if self._ssl is None or not self._is_secured or self._lost:
            return None
        version, cipher = self._ssl.version(), self._ssl.cipher()
        certificate = self._ssl.getpeercert(binary_form=True)
        return TlsSession(version or "", cipher[0] if cipher is not None else "", certificate, uris_of(self._ssl))

    # The handshake

    def _flight_arrived(self) -> None:
        before = len(self._held)
        arrived = self._tls.scratch[: before + FLIGHT_BYTES]
        try:
            nbytes = self._socket.recv_into(arrived[before:])
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._end(error if self._ssl is None else TlsFailed(_sentence(error)))
            return
        arrived[:before] = self._held
        arrived = arrived[: before + nbytes]
        self._handshake_bytes += nbytes
        end, _ = whole_records(arrived, len(arrived), len(arrived))
        if not nbytes:
            self._end(None if self._ssl is None else TlsFailed(_HUNG_UP))
        elif self._ssl is None and arrived[0] != HANDSHAKE_RECORD:
            self._end(TlsFailed("the client does not speak TLS", bytes(arrived[:FIRST_BYTES])))
        elif self._handshake_bytes > HANDSHAKE_BYTES_MAX:
            self._end(TlsFailed(f"the handshake took more than {HANDSHAKE_BYTES_MAX} bytes of the client"))
        else:
            self._hold(arrived[end:], 1 if end else min(missing_bytes(arrived), DRIP_BYTES))
            if end:
                self._loop.remove_reader(self._fd)
                self._incoming.write(arrived[:end])
                self._next_step()

    def _hold(self, arrived: memoryview, least: int = 1) -> None:
        """Keeps a copy, since the scratch buffer is everybody's. `least`: how many more bytes must arrive."""
        self._held = memoryview(bytes(arrived)) if arrived else _NOTHING
        super().receive_at_least(least)

    def _next_step(self) -> None:
        is_new = self._ssl is None
        if self._ssl is None:
            self._ssl = self._tls.wrap(self._incoming, self._outgoing)
        # In a thread, while the event loop does not touch `_ssl`.
        # A first step costs a signature. Later ones tell why a client hung up.
        self._step = Step(self._ssl.do_handshake, self._shaken, self.peer.rpartition(":")[0], lambda: is_new and self.peer_ended)
        self._tls.handshakes.add(self._step, is_new=is_new)

    def _shaken(self, outcome: Outcome) -> None:
        self._step = None
        if self._lost:
            return
        if outcome is None:
            self._secured()
        elif isinstance(outcome, ssl.SSLWantReadError):
            self._loop.add_reader(self._fd, self._flight_arrived)
            self._send_flight()
        else:
            self._end(TlsFailed(_sentence(outcome)))

    def _send_flight(self) -> None:
        """Sends what the last step has left for the peer. While the next one is in a thread, only what was taken before."""
        try:
            if self._step is None:
                self._seal(b"")
            self._send_sealed()
        except BlockingIOError:
            self._loop.add_writer(self._fd, self._send_flight)
        except OSError as error:
            self._end(TlsFailed(_sentence(error)))
        else:
            self._loop.remove_writer(self._fd)

    def _late(self) -> None:
        if self._step is not None:  # it waits for us, and not for its client
            self._deadline = self._loop.call_later(self._tls.handshake_s_max, self._late).cancel
        else:
            self._end(TlsFailed(f"the handshake took longer than {self._tls.handshake_s_max:g} s"))

    def _secured(self) -> None:
        self._is_secured, self._blocked = True, False
        self._cancel_deadline()
        self._loop.remove_writer(self._fd)
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
            if self._holds_records():
                self._read_soon()
        self._queue_control()
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
            if self.reading and self._holds_records():
                self._read_soon()
        elif not self.reading and not self.closing:
            self.reading = True
            if self._ssl is None and self._step is None:
                self._loop.add_reader(self._fd, self._flight_arrived)

    def receive_at_least(self, nbytes: int) -> None:
        # A record has more bytes than its data, but part of it may have arrived.
        super().receive_at_least(1 if self._held else nbytes)

    def _holds_records(self) -> bool:
        """Whether a read may give data that the socket does not have any more."""
        return self._ssl is not None and bool(self._held or self._incoming.pending or self._ssl.pending())

    def _read_soon(self) -> None:
        """Reads what epoll does not see, once the others have had their turn."""
        if not self._reads_soon:
            self._reads_soon = self._outbox.wakeful = True  # an answer that has left may have let reading go on
            self._loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        self._reads_soon = False
        if self.reading:
            self._readable()

    def _readable(self) -> None:
        if self._reads_soon:
            return  # one turn is enough
        receiver = self._receiver
        assert receiver is not None
        self.receives += 1
        self._in_turn = True
        try:
            buffer = receiver.get_buffer()
            received, outcome = self._decrypt(buffer)
            del buffer  # the receiver's chunk is free for reuse only when no view of it is left
            if received:
                receiver.buffer_updated(received)
            if isinstance(outcome, Ended):
                self._end(outcome.reason)
            elif self._unpaid > UNPAID_RECORDS_MAX:
                self._end(TlsFailed(f"the client sent more than {UNPAID_RECORDS_MAX} TLS records without data"))
            elif outcome and self.reading:
                self._read_soon()
            self._queue_control()
        except Exception as error:
            # The fault is the receiver's own. It must not end the other connections.
            log.exception("receiver failed", extra={"fields": {"peer": self.peer}})
            self._end(error)
        finally:
            self._in_turn = False
        if (self._queue or self._sent_early) and not self._blocked and not self._warming:
            self.flush()

    def _decrypt(self, buffer: memoryview) -> tuple[int, bool | Ended]:
        """Fills the buffer with what there is for one turn. It returns the number of bytes, and whether more is there which epoll
        does not see, or why the connection ends."""
        tls, incoming, held = self._ssl, self._incoming, self._held
        assert tls is not None, "it is read once the handshake is complete"
        read: Callable[[int, memoryview], int] = tls.read  # type: ignore[assignment]
        size, received, with_data, left = len(buffer), 0, 0, RECORDS_A_TURN
        scratch, is_drained = self._tls.scratch, False
        try:
            while True:
                while received < size and (incoming.pending or tls.pending()):
                    try:
                        nbytes = read(size - received, buffer[received:])
                    except ssl.SSLWantReadError:
                        break  # the rest had no data
                    if not nbytes:
                        return received, Ended(None)
                    received += nbytes
                    with_data += 1
                if received == size or not left:
                    return received, bool(held or incoming.pending or tls.pending())
                wanted = max(size - received, RECORD_MAX)
                end, count = whole_records(held, wanted, left)
                if count:
                    incoming.write(held[:end])
                    held = held[end:]
                    left -= count
                elif is_drained:
                    return received, False
                else:
                    before = len(held)
                    scratch[:before] = held
                    held = scratch[:before]
                    wanted = min(wanted, len(scratch) - before)
                    nbytes = self._socket.recv_into(scratch[before:], wanted)
                    if not nbytes:
                        return received, Ended(None)
                    held = scratch[: before + nbytes]
                    is_drained = nbytes < wanted
        except (BlockingIOError, InterruptedError):
            return received, False
        except OSError as error:
            return received, Ended(error)
        finally:
            del buffer  # the traceback of an error keeps this frame
            if held is not self._held:
                self._hold(held)
            self._unpaid = max(self._unpaid + RECORDS_A_TURN - left - with_data * (1 + PAID_BY_DATA), 0)

    def _queue_control(self) -> None:
        """Lets the next flush send what OpenSSL has for the peer besides data: tickets, alerts, and KeyUpdate messages."""
        if self._lost:
            return
        self._queue_rest()
        if self._outgoing.pending > UNSENT_CONTROL_BYTES_MAX:
            self._end(TlsFailed("the client does not read what TLS answers"))

    # Writing

    def flush(self) -> None:
        if self._is_secured:
            super().flush()

    def _send_buffers(self) -> None:
        self._encrypt()

    def _send_file(self, item: FileRange) -> None:
        self._encrypt()

    def _encrypt(self) -> None:
        """Encrypts and sends the head of the queue. Raises BlockingIOError if the socket does not take it all."""
        if not self._sealed:
            head = self._queue[0]
            most = self.pending_bytes if self.pending_bytes <= LAST_CHUNK else CHUNK
            if not isinstance(head, (FileRange, Descriptors)) and len(head) >= most:
                joined = memoryview(head)[:most]
            else:
                joined = self._tls.scratch[: self._join(most)]
            if self._warming:
                return
            self._seal(joined)
        try:
            self._send_sealed()
        finally:
            self._queue_rest()

    def _queue_rest(self) -> None:
        """Keeps the queue for what has no data and has not left yet."""
        if (self._sealed or self._outgoing.pending) and not self._queue and not self._lost:
            self._queue.append(b"")

    def _seal(self, joined: Buffer) -> None:
        """Encrypts record by record, since the memory of `_outgoing` stays as large as it ever was."""
        tls, outgoing, sealed, done = self._ssl, self._outgoing, self._sealed, 0
        assert tls is not None, "nothing is sent before the handshake is complete"
        while done < len(joined):
            done += tls.write(joined[done : done + DATA_MAX])
            sealed.append(outgoing.read())
        if outgoing.pending:
            sealed.append(outgoing.read())
        self._sealed_bytes, self._sealed_data = sum(map(len, sealed)), done

    def _send_sealed(self) -> None:
        if not self._sealed:
            self._left(0)
            return
        data = self._sealed_data
        if data:
            self.sends += 1
        sent = self._socket.sendmsg(self._sealed)
        if sent == self._sealed_bytes:
            self._sealed.clear()
            self._sealed_bytes = self._sealed_data = 0
            self._left(data)
            return
        left = data * sent // self._sealed_bytes
        self._sealed_bytes -= sent
        self._sealed_data -= left
        whole = 0
        while sent >= len(self._sealed[whole]):
            sent -= len(self._sealed[whole])
            whole += 1
        del self._sealed[:whole]
        self._sealed[0] = memoryview(self._sealed[0])[sent:]
        self._left(left)
        raise BlockingIOError

    def _join(self, most: int) -> int:
        """Joins the first `most` bytes of the queue in the scratch buffer, and returns their number. There may be fewer, or none:
        then a thread reads a file range first."""
        scratch, length = self._tls.scratch, 0
        for item in self._queue:
            assert not isinstance(item, Descriptors), "a TCP connection carries none"
            if isinstance(item, FileRange):
                room = min(item.stop - item.position, most - length)
                if room <= 0:
                    continue
                now = self._loop.time()
                if not item.is_cached(room, now):
                    if length:
                        return length
                    self._warm(item, room, now)
                    return 0
                read = os.preadv(item.fd, [scratch[length : length + room]], item.position)
                if read < room:
                    # The length was promised already, so the connection cannot go on.
                    raise OSError("the file is shorter than the range")
                length += read
            else:
                room = min(len(item), most - length)
                scratch[length : length + room] = memoryview(item)[:room]
                length += room
            if length == most:
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
        if not self._lost and not self._is_secured:
            self._loop.remove_reader(self._fd)
            self._loop.remove_writer(self._fd)
        super()._end(reason)

    def _close_socket(self, reason: Exception | None) -> None:
        if self._step is not None:
            self._tls.handshakes.withdraw(self._step)  # a thread that has it already does not touch the socket
            self._step = None  # it holds this stream
        elif self._ssl is not None:
            with contextlib.suppress(OSError, ValueError):
                if self._is_secured and reason is None:
                    self._ssl.unwrap()  # tells the other end that this is all
            if not self._sealed and self._outgoing.pending:
                with contextlib.suppress(OSError):
                    self._socket.send(self._outgoing.read())  # an alert, perhaps
        self._socket.close()


def _sentence(outcome: Exception) -> str:
    """What an operator should know of a handshake that has failed."""
    if isinstance(outcome, ssl.SSLCertVerificationError):
        return f"the client's certificate is not trusted: {outcome.verify_message}"
    if isinstance(outcome, (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError)):
        return _HUNG_UP
    if isinstance(outcome, ssl.SSLError) and outcome.reason:
        return _REASONS.get(outcome.reason) or outcome.reason.replace("_", " ").lower()
    return str(outcome)
