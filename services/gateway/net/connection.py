"""One client connection: it receives frames, begins their requests in order, and sends the answers in order.

`core/connection_phase.py` decides whether it is read, and how it ends; `core/session.py` which request begins and whose answer
leaves; `core/connection_timeouts.py` for how long. This file carries that out.

All frames of one read are handled before anything is written, and the answers of one turn leave together, which the stream
arranges. Whatever a client sends, it can lose its own connection only: each failure ends in `close(reason)`.
"""

import asyncio
import struct
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import Protocol

from libs.cluster.client_quotas import CLIENT_KEYS, Entity
from libs.rpc.transport.transport import DRIP_BYTES, Stream, TlsFailed
from libs.wire.api_keys import ApiKey
from libs.wire.frames import ChunkPool, FrameError, FrameReader
from services.gateway.appends.batch import Batch
from services.gateway.config import GatewayConfig
from services.gateway.core.connection_phase import (
    CONGESTED,
    DRAINED,
    MUTED,
    NO_ROOM,
    REASONS,
    ConnectionPhase,
    Effect,
    Effects,
    Fact,
    Moment,
    broken_invariant,
)
from services.gateway.core.connection_timeouts import ConnectionTimeouts, TimeoutLimits
from services.gateway.core.other_protocols import not_tls, other_protocol
from services.gateway.core.produced_partitions import ProducedPartitions, ProducerConnections
from services.gateway.core.request_budget import RequestBudget
from services.gateway.core.session import Session, SessionLimits
from services.gateway.data_path.data_path import DataPath
from services.gateway.exchange.exchange import Answer, ConnectionShortcuts, Exchange, drop_answer
from services.gateway.exchange.quota_use import NO_LIMITS, Throttle
from services.gateway.exchange.request_context import ANONYMOUS
from services.gateway.gateway_meters import GatewayMeters
from services.gateway.net.client_listener import ClientListener
from services.gateway.net.leaving_answers import LeavingAnswers
from services.gateway.net.mute import Mute
from services.gateway.requests.authentication import UNAUTHENTICATED_FRAME_BYTES_MAX, AuthenticationGate
from services.gateway.requests.client_quotas import ClientQuotas, telling
from services.gateway.requests.gate import Gate
from services.gateway.requests.request_log import LOGGED, log_answered, log_unanswered

PRODUCE = int(ApiKey.PRODUCE)

COPIED_BYTES_MAX = 65_536
"""The largest request that is copied out of its receive chunk before it waits. The chunk is larger, and would be held otherwise.
"""

UNREAD_BYTES_MIN = 65_536
"""The bytes of answers from which a connection counts in the budget of unread answers. It is the stream's low-water mark, below
which the stream calls `write_ready`."""
OUTPUT_BYTES_MAX = 256 * 1024
"""The bytes of answers that a client may leave unread. Beyond them its next request does not begin."""

NO_GENERATION = -1
"""Of ACLs: no request was decided on yet."""

_API_KEY = struct.Struct(">h")


class SharedByConnections(Protocol):
    """The part of the process that all client connections share: settings, budgets, counters, the data path."""

    config: GatewayConfig
    data_path: DataPath
    gate: Gate
    quotas: ClientQuotas
    loop: asyncio.AbstractEventLoop
    chunks: ChunkPool
    requests: "RequestBudget[Connection]"
    producers: ProducerConnections
    session_limits: SessionLimits
    timeout_limits: TimeoutLimits
    meters: GatewayMeters

    @property
    def chunk_size(self) -> int: ...

    def completed(self, exchanges: Sequence[Exchange], now: float) -> None:
        """Tells that all is over for requests."""

    def log_closed(self, connection: "Connection", reason: str, detail: str, client_id: str, user: str) -> None:
        """Logs why the gateway closes it."""

    def ended(self, connection: "Connection", reason: str) -> None:
        """Tells that nothing more is read from it. Answers may wait in its stream."""

    def lost(self, connection: "Connection") -> None:
        """Tells, after `ended` or before it, that its stream is gone."""

    def idle_s_max(self, broker_id: int) -> float | None:
        """The idle time after which a connection to a broker's port closes. None: `timeout_limits` has it."""

    def close_unread(self, now: float) -> None:
        """Closes connections, if unread answers take more than their budget."""

    def room_freed(self) -> None:
        """Tells that connections which wait for room may have it now."""


def host_of(peer: str) -> str:
    return peer.rpartition(":")[0] or peer


class Connection:
    """The `Receiver` of a client's stream."""

    __slots__ = (
        "_connections",
        "_gate",
        "_has_unread",
        "_leaving",
        "_look",
        "_loop",
        "_mute",
        "_phase",
        "_pumping",
        "_reader",
        "_requests",
        "_session",
        "_stream",
        "_timeouts",
        "acl_generation",
        "broker_id",
        "client_host",
        "client_id",
        "has_produced",
        "kept_limits",
        "known_addresses",
        "last_active",
        "listener",
        "opened_at",
        "peer",
        "principal",
        "produced",
        "shortcuts",
        "software_name",
        "software_version",
        "withheld_hints",
    )

    def __init__(
        self,
        connections: SharedByConnections,
        stream: Stream,
        broker_id: int,
        listener: ClientListener,
    ) -> None:
        sasl = listener.sasl
        self._connections = connections
        self._gate = AuthenticationGate(sasl, connections.gate, self) if sasl is not None else connections.gate
        self.principal = ANONYMOUS
        self.acl_generation = NO_GENERATION
        self._loop = connections.loop
        self._stream = stream
        self._requests = connections.requests
        frame_bytes_max = connections.config.frame_bytes_max if sasl is None else UNAUTHENTICATED_FRAME_BYTES_MAX
        self._reader = FrameReader(frame_bytes_max, chunk_size=connections.chunk_size, pool=connections.chunks)
        self._session: Session[Exchange] = Session(connections.session_limits, connections.requests)
        self._timeouts = ConnectionTimeouts(connections.timeout_limits)
        self._phase = ConnectionPhase(authenticates=sasl is not None)
        self._has_unread = False  # much of it: it counts in the budget
        self._leaving = LeavingAnswers(stream, connections.meters, connections.completed, self._loop.time)
        self._pumping = False
        self._look: asyncio.TimerHandle | None = None
        self._mute: Mute | None = None
        self.broker_id = broker_id
        self.peer = stream.peer
        self.client_host = host_of(stream.peer)
        self.client_id = ""
        self.kept_limits = NO_LIMITS
        self.has_produced = False
        self.listener = listener.name
        if (user_of := listener.user_of) is not None:
            stream.on_secured = partial(self._secured, user_of)
        self.software_name = ""
        self.software_version = ""
        self.known_addresses = connections.data_path.routes.addresses
        self.produced = ProducedPartitions(broker_id, connections.producers)
        self.withheld_hints = 0
        self.shortcuts = ConnectionShortcuts(enabled=connections.config.shortcuts)
        self.opened_at = self.last_active = self._loop.time()

    # --- Receiver: calls of the stream --------------------------------------------------------------------------------

    def get_buffer(self) -> memoryview:
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        connections = self._connections
        reader, phase, timeouts = self._reader, self._phase, self._timeouts
        now = self.last_active = self._loop.time()
        connections.meters.bytes_in += nbytes
        reader.advance(nbytes)
        incomplete_since = timeouts.half_frame_since
        appends = connections.data_path.appends
        try:
            for frame in reader.frames():
                incomplete_since = 0.0
                if (before := appends.last_staged) is None or not self._joins(before, frame, now):
                    self._frame_received(frame, now)
                if phase.ended:
                    return
        except FrameError as error:
            claim = reader.next_frame_claims
            self.close("frame", (other_protocol(claim) if claim is not None else None) or str(error))
            return
        finally:
            appends.flush()
        if phase.ended:
            return
        if reader.pending:
            if not incomplete_since:
                if timeouts.half_frame_since:
                    self._requests.completed(self)
                timeouts.half_frame_since = now
            # A client that sends a byte now and then costs no turn for each of them.
            self._stream.receive_at_least(min(reader.missing, DRIP_BYTES) if nbytes < DRIP_BYTES else 1)
        elif timeouts.half_frame_since:
            self._stream.receive_at_least(1)
            timeouts.half_frame_since = 0.0
            self._requests.completed(self)
        if not phase.held & MUTED:
            self._ask_for_room(now)
        if self._session.congested and not phase.held & CONGESTED:
            self._carry_out(phase.hold(CONGESTED))

    def _ask_for_room(self, now: float) -> None:
        """Asks the budget for room for the incomplete frame, and holds the input if there is none."""
        needed, requests = self._reader.needed if self._reader.pending else 0, self._requests
        if (needed or requests.used > requests.short_at) and not requests.ask(self, needed):
            self._timeouts.no_room_since = now
            self._carry_out(self._phase.hold(NO_ROOM))

    def descriptors_received(self, descriptors: list[int] | None) -> None:
        raise AssertionError("a TCP connection carries no descriptors")

    def write_ready(self) -> None:
        if not self._phase.ended:
            self._resume_output()

    def _secured(self, user_of: Callable[[bytes], str]) -> None:
        """Serves requests as those of the user whom the client's certificate names, if it has shown one."""
        tls = self._stream.tls
        if tls is None or tls.peer_certificate is None:
            return
        try:
            self.principal = f"User:{user_of(tls.peer_certificate)}"
        except ValueError as error:
            self._stream.abort(TlsFailed(str(error)))

    def connection_lost(self, reason: Exception | None) -> None:
        self._connections.lost(self)
        self._connections.data_path.answers.forget(self)
        if isinstance(reason, TlsFailed):
            self.close("tls", not_tls(reason.begins_with) if reason.begins_with else str(reason))
        else:
            self.close("client" if reason is None else "reset")
        self._leaving.lost()

    # --- requests -----------------------------------------------------------------------------------------------------

    def _frame_received(self, frame: memoryview, now: float) -> None:
        api_key = _API_KEY.unpack_from(frame)[0] if len(frame) >= 2 else -1
        exchange = Exchange(self, frame, api_key, now, api_key == PRODUCE)
        if self._session.arrive(exchange):
            self._gate.begin(exchange)
        else:
            self._keep_frame(exchange)

    def _joins(self, before: Batch, frame: memoryview, now: float) -> bool:
        """Whether a request has joined the run of the one that was begun before it."""
        exchange = before.request.exchange
        if exchange.connection is not self or not self._session.may_join(exchange):
            return False
        return self._connections.gate.joins(before, frame, now)

    def join(self, exchange: Exchange, size: int) -> None:
        """Lets a request share the place of an unanswered one, and its answer."""
        self._session.join(exchange, size)

    def part(self, exchange: Exchange, exchanges: Sequence[Exchange]) -> None:
        """Gives the requests that have joined an unanswered one places of their own."""
        self._session.part(exchange, exchanges)

    def leaves_next(self, exchange: Exchange, behind: Exchange | None) -> bool:
        """Whether its answer waits for none of an earlier request, or for that of `behind` alone, and is not logged by itself."""
        return not LOGGED.debug and self._session.leaves_next(exchange, behind)

    def _keep_frame(self, exchange: Exchange) -> None:
        """Its request waits: a small one is copied out of the receive chunk."""
        if exchange.frame is not None and len(exchange.frame) <= COPIED_BYTES_MAX:
            exchange.frame = memoryview(bytes(exchange.frame))

    def finish(self, exchange: Exchange, answer: Answer) -> None:
        now = exchange.answered_at = self._loop.time()
        use = exchange.quota_use
        if use is not None and (use.paid_from is None or use.paid_from.tokens < 0.0):
            throttle = self._connections.quotas.throttle(exchange, answer)
            if throttle is not None:
                exchange.throttled_s = throttle.seconds
                answer = telling(exchange, answer, round(throttle.seconds * 1000))
                self.mute(throttle)
        if self._phase.ended:
            drop_answer(answer)
            return
        for leaving in self._session.answer(exchange, answer):
            self._send(leaving, now)
        if self._requests.waiting:
            if self._phase.held & NO_ROOM and self._requests.ask_again(self):
                self.has_room()
            self._connections.room_freed()
        if not exchange.pipelined:
            self._stream.flush()  # no other answer can follow in this turn
        if not self._pumping:
            self._resume_output()

    def is_only_request(self, exchange: Exchange) -> bool:
        return self._session.is_only_request(exchange)

    def _send(self, exchange: Exchange, now: float) -> None:
        answer, exchange.answer, exchange.left_at = exchange.answer, None, now
        if LOGGED.debug:
            log_answered(exchange, answer)
        traces = self._connections.data_path.traces
        if now - exchange.received_at > traces.slow_s or exchange.trace is not None or exchange.error:
            for each in exchange.apart():
                traces.answered(each, now)
        exchange.asked = ()
        if answer is None:
            self._connections.completed((exchange,), now)
        else:
            self._leaving.write(exchange, answer)

    def _resume_output(self) -> None:
        """Begins the requests that may begin now, and reads or stops reading, by how much the client leaves unread."""
        session, stream, phase = self._session, self._stream, self._phase
        session.output_blocked = stream.pending_bytes > OUTPUT_BYTES_MAX
        self._pumping = True
        began_any = False
        try:
            while not phase.ended and (exchange := session.begin_next()) is not None:
                began_any = True
                exchange.began_at = self._loop.time()
                self._gate.begin(exchange)
                session.output_blocked = stream.pending_bytes > OUTPUT_BYTES_MAX
        finally:
            self._pumping = False
            if began_any:
                self._connections.data_path.appends.flush()
        if self._has_unread or stream.pending_bytes > UNREAD_BYTES_MIN:
            self.note_unread()
        if phase.held and session.relieved and not session.output_blocked:
            self._carry_out(phase.free(CONGESTED))
        if phase.ends_when_idle:
            self._end_if_idle()

    def note_unread(self) -> None:
        """Brings the budget of unread answers up to date. A closed connection counts while answers wait in its stream."""
        stream, answers = self._stream, self._connections.data_path.answers
        unread = stream.pending_bytes - stream.pending_file_bytes
        self._has_unread = unread > UNREAD_BYTES_MIN
        now = self._loop.time()
        answers.note(self, unread if self._has_unread else 0, stream.bytes_sent, now)
        if answers.is_exceeded:
            self._connections.close_unread(now)

    # --- phases -------------------------------------------------------------------------------------------------------

    def _carry_out(self, effects: Effects, reason: str = "") -> None:
        """`reason`: of its end, if the effects bring it."""
        for effect in effects:
            match effect:
                case Effect.STOP_READING:
                    self._stream.pause_reading()
                case Effect.READ_ON:
                    self._timeouts.read_on(self._loop.time())
                    self._stream.resume_reading()
                case Effect.LOOK:
                    if self._look is not None:
                        self._look.cancel()
                    # A timer: the loop looks at sockets before it.
                    self._look = self._loop.call_later(0.0, self._looked, self.last_active)
                case Effect.RELEASE:
                    self._release(reason)
                case Effect.CLOSE:
                    self._stream.close()
                    if self._stream.pending_bytes > UNREAD_BYTES_MIN:
                        self.note_unread()
                case Effect.ABORT:
                    self._stream.abort(TimeoutError(reason))
                    self._connections.data_path.answers.forget(self)

    def has_room(self) -> None:
        """Reads on, after a wait for room in the budget."""
        self._timeouts.no_room_since = 0.0
        self._carry_out(self._phase.free(NO_ROOM))

    def mute(self, throttle: Throttle) -> None:
        """Reads no further request for so long, and longer if its entity owes something then. It waits for no room meanwhile. An
        incomplete request keeps the room that it has, since its bytes take memory."""
        if self._phase.ended:
            return
        if self._mute is None:
            self._mute = Mute(self._connections.quotas, self.unmute)
        if self._mute.begin(throttle):
            self._carry_out(self._phase.hold(MUTED))
            if self._phase.held & NO_ROOM:
                self._requests.withdraw(self)
                self._timeouts.no_room_since = 0.0
                self._carry_out(self._phase.free(NO_ROOM))
                self._connections.room_freed()

    def look_at_mute(self) -> None:
        """Reads on, if limits have changed and its entity owes nothing any more."""
        if self._mute is not None:
            self._mute.look()

    def postpone(self, exchange: Exchange, throttle: Throttle) -> None:
        """Begins a request after a mute, and no other before it."""
        self._keep_frame(exchange)
        self._session.postpone(exchange)
        self._session.held = True
        self.mute(throttle)

    def unmute(self) -> None:
        """Reads on, and begins what waits, if a quota has muted the connection."""
        if self._mute is not None and self._mute.end() and not self._phase.ended:
            self._ask_for_room(self._loop.time())
            self._carry_out(self._phase.free(MUTED))
            if self._session.held:
                self._session.held = False
                self._resume_output()

    def authenticated(self, user: str, *, keeps_gate: bool) -> None:
        """Serves requests from now on, as those of this user. `keeps_gate`: they still pass the gate of authentication."""
        self.principal = f"User:{user}"
        self.acl_generation = NO_GENERATION
        self.kept_limits = NO_LIMITS
        if not keeps_gate:
            self._gate = self._connections.gate
        self._reader.allow(self._connections.config.frame_bytes_max)
        self._carry_out(self._phase.turn(Fact.AUTHENTICATED))

    def leave(self) -> None:
        """Closes the connection as soon as no request is outstanding. Until then requests are read as usual."""
        self._carry_out(self._phase.turn(Fact.LEAVE), DRAINED)

    def _looked(self, last_active: float) -> None:
        self._look = None
        self._carry_out(self._phase.turn(Fact.NOTHING_CAME if self.last_active == last_active else Fact.MORE_CAME))
        self._end_if_idle()

    def drain(self) -> None:
        """Reads no further request, and closes the connection once the outstanding ones are answered."""
        self.unmute()
        self._carry_out(self._phase.turn(Fact.DRAIN), DRAINED)
        self._end_if_idle()

    def _end_if_idle(self) -> None:
        if self._phase.ends_when_idle and self._session.idle:
            self._carry_out(self._phase.turn(Fact.HALF_IDLE if self._reader.pending else Fact.IDLE), DRAINED)

    def close(self, reason: str, detail: str = "", user: str = "") -> None:
        """Ends the connection, for a reason of `connection_phase.REASONS`, which says what becomes of answers in the stream.
        `user`: whom the client wanted to be."""
        known = REASONS[reason]
        if known.is_logged and not self._phase.ended:
            client_id = next((e.client_id for e in self._session.outstanding() if e.client_id), "")
            self._connections.log_closed(self, reason, detail, client_id, user)
        self._carry_out(self._phase.turn(known.fact), reason)

    def _release(self, reason: str) -> None:
        self.produced.end()
        self._reader.close()  # at once, and not at the next garbage collection
        self._connections.ended(self, reason)
        now, traces = self._loop.time(), self._connections.data_path.traces
        for exchange in [each for turn in [*self._session.outstanding()] for each in turn.apart()]:
            if LOGGED.debug:
                log_unanswered(exchange, reason, now)
            traces.abandoned(exchange, now)
            if exchange.answered:
                drop_answer(exchange.answer)
            elif exchange.on_hang_up is not None:
                hang_up, exchange.on_hang_up = exchange.on_hang_up, None
                hang_up()
            elif exchange.frame is not None:
                self._gate.client_gone(exchange)
        self._session.end()
        self.unmute()
        self._mute = None  # it knows this connection
        self._requests.withdraw(self)
        if self._requests.waiting:
            self._connections.room_freed()

    # --- for the sweep, the budgets and views -------------------------------------------------------------------------

    def check(self, now: float) -> None:
        """Closes the connection if its client exceeds a timeout. The sweep of `Connections` calls it."""
        session, reader = self._session, self._reader
        if self._phase.is_authenticating and now - self.opened_at > self._connections.config.authentication_s_max:
            self.close("unauthenticated", f"not authenticated in {now - self.opened_at:.0f} s")
            return
        idle_since = self.last_active if session.idle else inf
        verdict = self._timeouts.verdict(
            now,
            self._phase.is_paused,
            self._stream.pending_bytes,
            reader.pending,
            idle_since,
            is_muted=self.is_muted,
            idle_s_max=self._connections.idle_s_max(self.broker_id),
        )
        if self.is_muted and self._stream.peer_ended:
            self.close("client")  # nothing is read that would tell
            self._stream.close()
        elif verdict is not None:
            self.close(*verdict)
        elif (session.idle and not reader.pending) or reader.is_unused:
            reader.rest()  # a long poll may take minutes

    @property
    def is_muted(self) -> bool:
        """Whether a quota keeps it from being read."""
        return self._mute is not None and self._mute.holds

    @property
    def muted_for(self) -> list[Entity]:
        """Whose debts a mute waits for. Empty: nobody's, or it is not muted."""
        return [*self._mute.entities] if self._mute is not None else []

    @property
    def queued_bytes(self) -> int:
        return self._session.bytes

    @property
    def held_bytes(self) -> int:
        """The bytes of its requests, the incomplete one included."""
        return self._session.bytes + self._requests.room_of(self)

    @property
    def chunk_bytes(self) -> int:
        return self._reader.held

    def debug(self) -> dict[str, object]:
        """What it waits for, and what it holds."""
        running, tls = self._session.first_running, self._stream.tls
        return {
            "listener": self.listener,
            "tls": f"{tls.version} {tls.cipher}" if tls is not None else None,
            "running_api": running.api_key if running is not None else None,
            "outstanding": self._session.requests,
            "held_bytes": self.held_bytes,
            "unread_bytes": self._stream.pending_bytes,
            "paused": self._phase.is_paused,
            "waits_for_room": self._phase.held & NO_ROOM != 0,
            "muted_s": round(max(0.0, self._mute.until - self._loop.time()), 3) if self._mute is not None else 0.0,
            "muted_for": [{"quota": CLIENT_KEYS[kind], "user": user, "client_id": name} for kind, user, name in self.muted_for],
            "half_frame": self._reader.pending > 0,
            "leaving": self._phase.is_leaving,
        }

    def overdue_since(self) -> float:
        """The loop time from which the connection may be closed for the room that others wait for."""
        running, waiting = self._session.first_running, self._session.first_waiting
        return self._timeouts.overdue_since(
            self._reader.pending,
            waiting.received_at if waiting is not None else 0.0,
            running.received_at if running is not None else 0.0,
        )

    def is_unused(self, since: float) -> bool:
        return self._session.idle and self.last_active < since

    def broken_invariant(self) -> str:
        """See `connection_phase.broken_invariant`: to be called between two turns of the event loop."""
        session, stream = self._session, self._stream
        now = Moment(
            stream_ended=stream.closing,
            reads=stream.reading,
            unsent=stream.pending_bytes,
            running=session.first_running is not None,
            waiting=session.first_waiting is not None,
            half_frame=self._reader.pending,
            room=self._requests.room_of(self),
            waits_for_room=self._requests.waits(self),
            looks=self._look is not None,
            mute_ends=self.is_muted,
        )
        return broken_invariant(self._phase, now)
