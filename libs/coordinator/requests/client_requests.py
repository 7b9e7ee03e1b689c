"""Clients' requests, as gateways relay them (`libs/rpc/contracts/coordinators.py`), on their way to their shards.

Requests of one connection are decided in the order of arrival: each is decoded and decided before the next frame is read. An
answer leaves when its decision is committed, or when another decision wakes a parked request (JoinGroup, SyncGroup). Only the
caller's deadline counts. If a caller goes away, its answer is dropped, and its decision stays.

A request that depends on topics waits if its gateway knows later ones (`deferred_requests.py`). Requests of other clients may
overtake it. Those of its own client do not, since a gateway runs one request of a connection at a time.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple
from functools import partial
from itertools import islice
from typing import Any, Final, Generic, TypeVar, get_type_hints

from libs.cluster.image import ClusterImage
from libs.coordinator.core.pending import Answer
from libs.coordinator.core.shard_hashing import shard_of
from libs.coordinator.requests.deferred_requests import DeferredRequest, DeferredRequests, Write
from libs.coordinator.requests.malformed_requests import MalformedRequestLog
from libs.coordinator.shards.shard_set import ShardSet
from libs.coordinator.tracing.call_spans import CallSpans
from libs.rpc.contracts.coordinators import Ask, AskReply
from libs.rpc.messages.envelope import EMPTY, pack_any
from libs.rpc.messages.schema import unpack
from libs.rpc.server.call import Call
from libs.rpc.server.rpc_server import Accept
from libs.telemetry.logs import fields
from libs.wire.apis import Api
from libs.wire.errors import ErrorCode
from libs.wire.listings import Listing, join, take_apart
from libs.wire.primitives import ProtocolError

log = logging.getLogger("coordinators")

Count = Callable[[Api, int, object], int]
"""Counts one request: (API, error of the whole answer, reply). Returns its error: that of the answer, or the first in the
reply."""

E = TypeVar("E")
"""Events of the shards' machines."""
R = TypeVar("R")
"""Their replies."""

INVALID_REQUEST = int(ErrorCode.INVALID_REQUEST)
NOT_COORDINATOR = int(ErrorCode.NOT_COORDINATOR)
COORDINATOR_LOAD_IN_PROGRESS = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
COORDINATOR_NOT_AVAILABLE = int(ErrorCode.COORDINATOR_NOT_AVAILABLE)
UNKNOWN_SERVER_ERROR = int(ErrorCode.UNKNOWN_SERVER_ERROR)

LISTED_AT_ONCE: Final = 500
"""The most groups or transactional ids at which one turn of a listing looks: 0.5 ms."""

DECISIONS_UNDER_WAY: Final = 16
"""Of one listing. Each may wait for an append, and a million names take 2,000 of them."""

SUCCESS = pack_any(AskReply(0))

ASK_TYPES = list(get_type_hints(Ask).values())
"""Field types in their order on the wire."""


class ClientRequests(ABC, Generic[E, R]):
    """The RPC methods. Call `follow` with each image, after the shards have it. It needs a running event loop.

    `apis`: what the coordinators decide, by Kafka's number. `method`: the name of the RPC method. `count` counts each request.
    """

    def __init__(self, method: str, apis: Mapping[int, Api], shards: ShardSet[E, R, Any], count: Count, spans: CallSpans) -> None:
        self._method = method
        self._apis = apis
        self._shards = shards
        self._count = count
        self.spans = spans
        loop = asyncio.get_running_loop()
        self._malformed = MalformedRequestLog(loop.time)
        self._image_revision = 0
        self._deferred: DeferredRequests[E] = DeferredRequests(loop, self._refuse_deferred)
        self._loop = loop
        self._listings: set[asyncio.Task[None]] = set()
        self._listing_turns: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        """By shard. A listing holds all names and the whole answer, so each shard has one at a time, however many clients ask."""

    # -- what each kind of coordinator says -----------------------------------------------------------------------------------

    @abstractmethod
    def decode(self, api: Api, version: int, body: bytes, client_id: str, client_host: str) -> tuple[E, Write]:
        """The event for the shard, and the function that writes the response. Raises ProtocolError."""

    def authorized(self, event: E, principal: str, client_host: str, *, allow_if_no_acl: bool) -> E:
        """The event of a client whose ACLs matter to the decision."""
        return event

    @abstractmethod
    def keys(self, api: Api, event: E) -> Sequence[str]:
        """The groups or transactional ids of the event. All must belong to the shard."""

    @abstractmethod
    def reads_topics(self, event: E) -> bool:
        """Whether the decision depends on which topics there are."""

    # -- the way of a request -------------------------------------------------------------------------------------------------

    @property
    def methods(self) -> Mapping[str, Accept]:
        return {self._method: self.ask}

    def ask(self, call: Call) -> None:
        """Decides one request. Raises ContractError."""
        shard, api_key, version, client_id, client_host, topics_revision, principal, allow_if_no_acl = _fields(call.body)
        api = self._apis.get(api_key)
        if api is None or not api.serves(version):
            call.reply(AskReply(INVALID_REQUEST))
            return
        # A copy: a waiting request must not hold the connection's receive buffer.
        body, call.payload = bytes(call.payload), EMPTY
        try:
            event, write = self.decode(api, version, body, client_id, client_host)
            if principal:
                event = self.authorized(event, principal, client_host, allow_if_no_acl=allow_if_no_acl)
        except ProtocolError as error:
            self._malformed.write(call.peer.address, api.name, version, error)
            call.reply(AskReply(INVALID_REQUEST))
            return
        if topics_revision > self._image_revision and self.reads_topics(event):
            self._deferred.defer(DeferredRequest(call, api, write, shard, event, topics_revision))
        else:
            self._decide(call, api, write, shard, event)

    def follow(self, image: ClusterImage) -> None:
        """Decides the requests that waited for this image."""
        self._image_revision = image.revision
        if self._deferred:
            for call, api, write, shard, event, _ in self._deferred.take_ready(image.revision):
                self._decide(call, api, write, shard, event)
            self._shards.end_turn()

    async def close(self) -> None:
        """Refuses the requests that wait for an image, and ends listings."""
        self._deferred.close()
        for listing in self._listings:
            listing.cancel()

    def submit(self, call: Call, api: Api, write: Write, shard: int, event: E) -> None:
        """Has the shard decide. The answer goes to the caller."""
        self._shards.submit(shard, event, partial(self.answer, call, api, write), self.spans.of_append(call))

    def list_by_turns(
        self,
        call: Call,
        api: Api,
        write: Write,
        shard: int,
        names: Callable[[], Iterable[str]],
        event_of: Callable[[list[str]], E],
    ) -> None:
        """Answers ListGroups or ListTransactions by decisions about some names each, with turns of others in between.

        `names` takes the names of the shard, one of them perhaps twice, and `event_of` makes the event about some of them. What
        began or ended since they were taken may be in the answer or not, as in one that came earlier or later.
        """

        async def list_all() -> None:
            try:
                async with self._listing_turns[shard]:
                    if call.open:
                        await self._list(call, api, write, shard, iter(names()), event_of)
            except Exception:
                log.exception("a listing failed", extra=fields(api=api.name))
                self._refuse(call, api, UNKNOWN_SERVER_ERROR)

        listing = self._loop.create_task(list_all(), name=api.name)
        self._listings.add(listing)
        listing.add_done_callback(self._listings.discard)

    async def _list(
        self, call: Call, api: Api, write: Write, shard: int, names: Iterator[str], event_of: Callable[[list[str]], E]
    ) -> None:
        version, seen, listings = int(call.body[2]), set[str](), list[Listing]()  # type: ignore[call-overload]
        under_way, left = deque[asyncio.Future[Answer[R, Any]]](), True
        while left or under_way:
            if left and len(under_way) < DECISIONS_UNDER_WAY:
                some = list(islice(names, LISTED_AT_ONCE))
                left = bool(some)
                unseen = [name for name in some if name not in seen]
                seen.update(some)
                # A decision may wait for an append. The only one about nothing is that of a shard without names.
                if unseen or not (left or under_way or listings):
                    under_way.append(self._one_decision(shard, event_of(unseen)))
                await asyncio.sleep(0)
                continue
            answer = await under_way.popleft()
            if not call.open:
                return
            listing = Listing(answer.error) if answer.error else take_apart(api.key, write(answer.reply), version)
            if listing.error_code:
                self.answer(call, api, write, answer)
                return
            listings.append(listing)
        self._count(api, 0, answer.reply)
        call.reply(SUCCESS, (join(api.key, listings, version),))

    def _one_decision(self, shard: int, event: E) -> asyncio.Future[Answer[R, Any]]:
        decided: asyncio.Future[Answer[R, Any]] = self._loop.create_future()
        self._shards.submit(shard, event, lambda answer: None if decided.done() else decided.set_result(answer))
        self._shards.end_turn()
        return decided

    def _decide(self, call: Call, api: Api, write: Write, shard: int, event: E) -> None:
        if error_code := self._routing_error(shard, self.keys(api, event)):
            self._refuse(call, api, error_code)
        else:
            self.submit(call, api, write, shard, event)

    def _refuse_deferred(self, request: DeferredRequest[E]) -> None:
        self._refuse(request.call, request.api, COORDINATOR_LOAD_IN_PROGRESS)

    def _refuse(self, call: Call, api: Api, error_code: int) -> None:
        self._count(api, error_code, None)
        call.reply(AskReply(error_code))

    def _routing_error(self, shard: int, keys: Sequence[str]) -> int:
        count = self._shards.count
        if not count:
            return COORDINATOR_NOT_AVAILABLE
        for key in keys:
            if shard_of(key, count) != shard:
                return NOT_COORDINATOR
        return 0

    def answer(self, call: Call, api: Api, write: Write, answer: Answer[R, Any]) -> None:
        if not call.open:
            return
        error = answer.error
        body: bytes | bytearray = b""
        if not error:
            try:
                body = write(answer.reply)
            except Exception:
                log.exception("a response cannot be written", extra=fields(api=api.name, version=call.body[2]))
                error = UNKNOWN_SERVER_ERROR
        counted = self._count(api, error, answer.reply)
        driver = self._shards.owned.get(shard := int(call.body[0]))  # type: ignore[call-overload]
        traced = self.spans.answered(call, api, shard, counted, driver.append_times if driver is not None else None)
        reply = SUCCESS if not (error or traced) else AskReply(error, counted if traced else 0)
        call.reply(reply, (body,) if body else ())


def _fields(body: list[object]) -> Sequence[Any]:
    """The fields of an `Ask`, without making one. Raises ContractError."""
    if [type(field) for field in body[: len(ASK_TYPES)]] == ASK_TYPES:
        return body[: len(ASK_TYPES)]
    return astuple(unpack(Ask, body))
