"""`groups.ask`: a client's request, as the client wrote it, on its way to the shard of its group, and the answer.

Requests of one connection are decided in the order of arrival: each is decoded and decided before the next frame is read. An
answer leaves when its decision is committed, or when another decision wakes a parked request (JoinGroup, SyncGroup). Only the
caller's deadline counts. If a caller goes away, its answer is dropped, and its decision stays.

A request that depends on topics waits if its gateway knows later ones (`deferred_requests.py`). Requests of other clients may
overtake it. Those of its own client do not, since a gateway runs one request of a connection at a time.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from functools import partial
from random import Random
from typing import Any, get_type_hints

from libs.cluster.image import ClusterImage
from libs.coordinator.pending import Answer
from libs.coordinator.shard_hashing import shard_of
from libs.coordinator.shard_set import ShardSet
from libs.rpc.call import Call, pack_any
from libs.rpc.contracts.groups import ASK, Ask
from libs.rpc.contracts.groups import AskReply as Answered
from libs.rpc.envelope import EMPTY
from libs.rpc.schema import unpack
from libs.rpc.server import Accept
from libs.telemetry.logs import fields
from libs.wire.api_keys import ApiKey
from libs.wire.apis import GROUP_APIS, Api
from libs.wire.errors import ErrorCode
from libs.wire.primitives import ProtocolError
from services.group_coordinator.core.model.requests import Reply, RequestEvent, reads_topics
from services.group_coordinator.protocol.commit_templates import CommitTemplates, Write
from services.group_coordinator.protocol.deferred_requests import DeferredRequest, DeferredRequests
from services.group_coordinator.protocol.malformed_requests import MalformedRequestLog

log = logging.getLogger(__name__)

INVALID_REQUEST = int(ErrorCode.INVALID_REQUEST)
NOT_COORDINATOR = int(ErrorCode.NOT_COORDINATOR)
COORDINATOR_LOAD_IN_PROGRESS = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
COORDINATOR_NOT_AVAILABLE = int(ErrorCode.COORDINATOR_NOT_AVAILABLE)
UNKNOWN_SERVER_ERROR = int(ErrorCode.UNKNOWN_SERVER_ERROR)
OFFSET_COMMIT = int(ApiKey.OFFSET_COMMIT)

SUCCESS = pack_any(Answered(0))

ASK_TYPES = list(get_type_hints(Ask).values())
"""Field types in their order on the wire."""

Groups = ShardSet[RequestEvent, Reply, Any]
Count = Callable[[Api, int, object], None]
"""Counts one request: (API, error of the whole answer, response)."""


class GroupRequests:
    """The RPC methods. Call `follow` with each image, after the shards have it. `random` is for member ids. It needs a running
    event loop."""

    def __init__(self, shards: Groups, random: Random, count: Count) -> None:
        self._shards = shards
        self._random = random
        self._count = count
        self._commits = CommitTemplates()
        loop = asyncio.get_running_loop()
        self._malformed = MalformedRequestLog(loop.time)
        self._image_revision = 0
        self._deferred = DeferredRequests(loop, self._refuse_deferred)

    @property
    def methods(self) -> Mapping[str, Accept]:
        return {ASK: self.ask}

    def ask(self, call: Call) -> None:
        """Decides one request. Raises ContractError."""
        shard, api_key, version, client_id, client_host, topics_revision = _fields(call.body)
        api = GROUP_APIS.get(api_key)
        if api is None or not api.serves(version):
            call.reply(Answered(INVALID_REQUEST))
            return
        # A copy: a waiting request must not hold the connection's receive buffer.
        body, call.payload = bytes(call.payload), EMPTY
        try:
            request, write = self._read(api_key, version, api, body)
        except ProtocolError as error:
            self._malformed.write(call.peer.address, api.name, version, error)
            call.reply(Answered(INVALID_REQUEST))
            return
        fresh_id = self._fresh_id() if api.needs_new_id else ""
        event = RequestEvent(request, version, client_id, client_host, fresh_id)
        if topics_revision > self._image_revision and reads_topics(request):
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
        """Refuses the requests that wait for an image."""
        self._deferred.close()

    def _decide(self, call: Call, api: Api, write: Write, shard: int, event: RequestEvent) -> None:
        if error_code := self._routing_error(shard, api.group_ids(event.request, event.version)):
            self._refuse(call, api, error_code)
        else:
            self._shards.submit(shard, event, partial(self._answer, call, api, write))

    def _refuse_deferred(self, request: DeferredRequest) -> None:
        self._refuse(request.call, request.api, COORDINATOR_LOAD_IN_PROGRESS)

    def _refuse(self, call: Call, api: Api, error_code: int) -> None:
        self._count(api, error_code, None)
        call.reply(Answered(error_code))

    def _read(self, api_key: int, version: int, api: Api, body: bytes) -> tuple[Any, Write]:
        """The request, and the function that writes its response. Raises ProtocolError."""
        if api_key == OFFSET_COMMIT:
            return self._commits.read(body, version)
        return api.read(memoryview(body), version), partial(api.written, version=version)

    def _routing_error(self, shard: int, groups: Sequence[str]) -> int:
        count = self._shards.count
        if not count:
            return COORDINATOR_NOT_AVAILABLE
        for group in groups:
            if shard_of(group, count) != shard:
                return NOT_COORDINATOR
        return 0

    def _answer(self, call: Call, api: Api, write: Write, answer: Answer[Reply, Any]) -> None:
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
        self._count(api, error, answer.reply)
        call.reply(Answered(error) if error else SUCCESS, (body,) if body else ())

    def _fresh_id(self) -> str:
        """A version 4 UUID in Java's text form."""
        bits = self._random.getrandbits(128) & ~(0xF << 76 | 3 << 62) | 4 << 76 | 2 << 62
        text = f"{bits:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _fields(body: list[object]) -> Sequence[Any]:
    """The fields of an `Ask`, without making one. Raises ContractError."""
    if [type(field) for field in body[: len(ASK_TYPES)]] == ASK_TYPES:
        return body[: len(ASK_TYPES)]
    return astuple(unpack(Ask, body))
