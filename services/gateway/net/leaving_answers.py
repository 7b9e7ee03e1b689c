"""The answers of one connection on their way to its client: written in order, and counted once the kernel has all of one."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from operator import attrgetter

from libs.rpc.transport.transport import Stream
from services.gateway.exchange.exchange import Buffer, Exchange, FilePart
from services.gateway.gateway_meters import GatewayMeters

_end_of = attrgetter("ends_at")


class LeavingAnswers:
    """`completed` gets the requests whose answers have left, and the loop time `now`. It may raise: no request is told twice."""

    __slots__ = ("_completed", "_exchanges", "_meters", "_now", "_stream")

    def __init__(
        self,
        stream: Stream,
        meters: GatewayMeters,
        completed: Callable[[Sequence[Exchange], float], None],
        now: Callable[[], float],
    ) -> None:
        self._stream = stream
        self._meters = meters
        self._completed = completed
        self._now = now
        self._exchanges: list[Exchange] = []
        """The requests whose answers the kernel has not taken whole, in their order."""
        stream.on_flushed = self._flushed

    def write(self, exchange: Exchange, answer: bytes | bytearray | Sequence[Buffer | FilePart]) -> None:
        stream, meters = self._stream, self._meters
        sent_before = stream.bytes_sent + stream.pending_bytes
        if isinstance(answer, (bytes, bytearray)):
            meters.bytes_out += len(answer)
            stream.write(answer)
        else:
            for part in answer:
                if isinstance(part, FilePart):
                    meters.bytes_out += part.length
                    stream.write_file(part.descriptor, part.position, part.length, part.released, cached=part.cached)
                else:
                    meters.bytes_out += len(part)
                    stream.write(part)
        exchange.ends_at = stream.bytes_sent + stream.pending_bytes
        if exchange.run is not None:
            exchange.run.answer_bytes = (exchange.ends_at - sent_before) // exchange.run.requests
        exchange.disk_wait_s = -stream.disk_wait_s  # until it has left
        self._exchanges.append(exchange)

    def _flushed(self) -> None:
        exchanges, sent = self._exchanges, self._stream.bytes_sent
        if exchanges and exchanges[-1].ends_at > sent:
            exchanges[:] = [each for exchange in exchanges for each in _apart(exchange)]
        if exchanges and exchanges[0].ends_at <= sent:
            taken = len(exchanges) if exchanges[-1].ends_at <= sent else bisect_right(exchanges, sent, key=_end_of)
            done = exchanges[:taken]
            del exchanges[:taken]
            if waited_s := self._stream.disk_wait_s:
                for exchange in done:
                    exchange.disk_wait_s += waited_s
            self._completed(done, self._now())

    def lost(self) -> None:
        """The connection is gone: nothing leaves any more."""
        done, self._exchanges = self._exchanges, []
        self._completed(done, self._now())


def _apart(exchange: Exchange) -> Sequence[Exchange]:
    """The requests of an answer that the kernel may take in part, each with the end of its own."""
    run, ends_at = exchange.run, exchange.ends_at
    if run is None:
        return (exchange,)
    exchanges = exchange.apart()
    exchange.run = None
    for behind, each in enumerate(reversed(exchanges)):
        each.ends_at = ends_at - behind * run.answer_bytes
    return exchanges
