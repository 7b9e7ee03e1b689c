"""Appends of several shards that leave together: one request and one answer for those of a turn that commit by the same replicas.

A request and its answer cost both ends nearly as much for one batch as for ten. Each batch keeps its own fence and its own
outcome: the leader decides about each by itself. But an answer comes when its last batch is committed. So only those leave
together that have one leader and one ISR, and each of a few kilobytes. If an answer is late nevertheless, say for one of the
leader's disks, its shards have requests of their own, until one of these is answered in time.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from libs.cluster.records import InSync
from libs.coordinator.log.append_outcomes import outcomes
from libs.coordinator.log.internal_log import Outcome
from libs.rpc.client.rpc_client import Response, RpcClient
from libs.rpc.contracts.storage import APPEND
from libs.telemetry.tracing.ids import SentRequest, process_name
from libs.telemetry.tracing.rpc_context import pack_contexts
from libs.telemetry.tracing.span import SpanContext

log = logging.getLogger("coordinators")

ALL: Final = -1
ANSWER_S_MAX: Final = 1.0
"""Extra time for the answer, after the time to commit is over."""
JOINED_MAX: Final = 64
"""The most batches of one request."""
JOINED_BYTES_MAX: Final = 16 << 10
"""The largest batch that shares a request."""
LATE_S: Final = 0.5
"""An answer that takes longer is late."""


class Route(NamedTuple):
    """What appends have in common that leave together."""

    client: RpcClient
    """Of their leader."""
    isr: frozenset[InSync]
    ms_max: int
    """The time until they have to be committed."""


class JoinedAppends:
    """The appends of one process's shards. Those that are put in a turn (`with appends:`) leave at its end, and all others at
    once. A turn within a turn is part of it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._turns = 0
        self._staged: dict[Route, list[PutAppend]] = {}
        self._alone: set[tuple[object, ...]] = set()
        """Topic id and partition of the shards whose last answers were late."""

    def __enter__(self) -> None:
        self._turns += 1

    def __exit__(self, *_: object) -> None:
        self._turns -= 1
        if self._staged and not self._turns:
            staged, self._staged = self._staged, {}
            for route, appends in staged.items():
                self._send(route, appends)

    def put(
        self,
        route: Route,
        part: list[object],
        batch: bytes,
        on_result: Callable[[Outcome], None],
        traces: Sequence[SpanContext],
    ) -> "PutAppend":
        """`part` describes the batch, as in the body of `storage.append`. `on_result` is called once, after this returns, unless
        the append is cancelled."""
        append = PutAppend(part, batch, on_result)
        # A question without a batch is answered without a commit, and the contexts of one request have room for few.
        if (
            not self._turns
            or not batch
            or traces
            or len(batch) > JOINED_BYTES_MAX
            or (self._alone and append.shard in self._alone)
        ):
            self._send(route, [append], traces)
            return append
        staged = self._staged.setdefault(route, [])
        staged.append(append)
        if len(staged) == JOINED_MAX:
            self._send(route, self._staged.pop(route))
        return append

    def _send(self, route: Route, appends: "list[PutAppend]", traces: Sequence[SpanContext] = ()) -> None:
        appends = [append for append in appends if append.on_result is not None]
        if not appends:
            return
        request = _Request(self, route.client, appends, self._loop.time())
        body: list[object] = [ALL, route.ms_max, [append.part for append in appends]]
        if len(appends) > 1:
            body += [None, -1, 0, True]
        try:
            request.id = route.client.send(
                APPEND,
                body,
                [append.batch for append in appends if append.batch],
                request,
                timeout_s=route.ms_max / 1000 + ANSWER_S_MAX,
                trace=pack_contexts([(0, context) for context in traces]) if traces else None,
            )
        except Exception as error:  # whatever it is, the shards wait for an outcome
            self._loop.call_soon(request, error)
        for append in appends:
            append.batch = b""  # a shard keeps its last append, and so would keep the batches of all that shared its request

    def note_answer(self, appends: "Sequence[PutAppend]", sent_at: float) -> None:
        if self._loop.time() - sent_at > LATE_S:
            self._alone.update([append.shard for append in appends])
        elif self._alone:
            self._alone.difference_update([append.shard for append in appends])


class _Request:
    """One `storage.append`. It is the RPC client's completion callback."""

    __slots__ = ("_appends", "_client", "_joined", "_sent_at", "id")

    def __init__(self, joined: JoinedAppends, client: RpcClient, appends: "list[PutAppend]", now: float) -> None:
        self._joined = joined
        self._client = client
        self._appends = appends
        self._sent_at = now
        self.id = 0
        """0: it was not sent."""
        for slot, append in enumerate(appends):
            append.request, append.slot = self, slot

    def __call__(self, result: Response | Exception) -> None:
        appends = self._appends
        self._joined.note_answer(appends, self._sent_at)
        with self._joined:  # shards that have decided more append again
            for append, outcome in zip(appends, outcomes(result, len(appends)), strict=True):
                append.answer(outcome)

    def sent(self, slot: int) -> SentRequest | None:
        peer = self._client.peer
        if not self.id or peer is None:
            return None
        return SentRequest(process_name(peer.role, peer.node_id, peer.incarnation), self.id, slot)

    def cancel_if_unawaited(self) -> None:
        if all(append.on_result is None for append in self._appends):
            self._client.cancel(self.id)


class PutAppend:
    """One batch on its way to its leader, as `JoinedAppends.put` makes it."""

    __slots__ = ("batch", "on_result", "part", "request", "slot")

    def __init__(self, part: list[object], batch: bytes, on_result: Callable[[Outcome], None]) -> None:
        self.part = part
        self.batch = batch
        """Empty once it is sent."""
        self.on_result: Callable[[Outcome], None] | None = on_result
        """None once it was called, or nobody awaits the outcome any more."""
        self.request: _Request | None = None
        self.slot = 0

    @property
    def shard(self) -> tuple[object, ...]:
        """Topic id and partition."""
        return tuple(self.part[:2])

    @property
    def sent(self) -> SentRequest | None:
        """The RPC request that carries it. None: it was not sent."""
        return self.request.sent(self.slot) if self.request is not None else None

    def cancel(self) -> None:
        """Drops the outcome. The leader hears of it if the request has no other batch whose outcome somebody awaits."""
        if self.on_result is not None:
            self.on_result = None
            if self.request is not None:
                self.request.cancel_if_unawaited()

    def answer(self, outcome: Outcome) -> None:
        on_result, self.on_result = self.on_result, None
        if on_result is None:
            return
        try:
            on_result(outcome)
        except Exception:  # the other batches of the request have outcomes too
            log.exception("an append's outcome was not taken")
