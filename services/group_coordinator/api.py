"""`groups.ask`: a client's request, as it wrote it, to the shard of its group, and the answer back.

Requests are decided in the order in which they come by one connection: decoding and deciding happen before the next frame is
looked at. Answers go when what was decided is committed, or when another's decision wakes who waits (JoinGroup, SyncGroup); there
is no deadline but the caller's. A caller that goes away is forgotten, and nothing that was decided for it is taken back.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import astuple
from functools import partial
from random import Random
from typing import Any, get_type_hints

from libs.rpc.call import Call, pack_any
from libs.rpc.contracts.groups import Ask
from libs.rpc.contracts.groups import Asked as Answered
from libs.rpc.envelope import EMPTY
from libs.rpc.schema import unpack
from libs.runtime.shards.pending import Answer
from libs.runtime.shards.placement import shard_of
from libs.runtime.shards.shard_set import ShardSet
from libs.telemetry.logs import fields
from libs.wire.api import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.primitives import ProtocolError
from services.group_coordinator.apis import APIS, Api
from services.group_coordinator.commit_shapes import CommitShapes, Write
from services.group_coordinator.core.asked import Asked, Reply
from services.group_coordinator.unreadable import Unreadable

log = logging.getLogger(__name__)

INVALID_REQUEST = int(ErrorCode.INVALID_REQUEST)
NOT_COORDINATOR = int(ErrorCode.NOT_COORDINATOR)
UNAVAILABLE = int(ErrorCode.COORDINATOR_NOT_AVAILABLE)
UNKNOWN = int(ErrorCode.UNKNOWN_SERVER_ERROR)
OFFSET_COMMIT = int(ApiKey.OFFSET_COMMIT)

WELL = pack_any(Answered(0))

ASK_TYPES = list(get_type_hints(Ask).values())
"""In their order on the wire."""

Groups = ShardSet[Asked, Reply, Any]
Count = Callable[[Api, int, object], None]
"""(API, error of the whole answer, response) of each request."""


class GroupsApi:
    """`random` is for member ids. Needs a running loop from its making on."""

    def __init__(self, shards: Groups, random: Random, count: Count) -> None:
        self._shards = shards
        self._random = random
        self._count = count
        self._commits = CommitShapes()
        self._unreadable = Unreadable(asyncio.get_running_loop().time)

    def ask(self, call: Call) -> None:
        """An RPC method. Raises ContractError."""
        shard, api_key, version, client_id, client_host = _fields(call.body)
        api = APIS.get(api_key)
        if api is None or not api.min_version <= version <= api.max_version:
            call.reply(Answered(INVALID_REQUEST))
            return
        # A copy: a request that waits for others must not hold what the connection receives into.
        body, call.payload = bytes(call.payload), EMPTY
        try:
            request, write = self._read(api_key, version, api, body)
        except ProtocolError as error:
            self._unreadable.tell(call.peer.address, api.name, version, error)
            call.reply(Answered(INVALID_REQUEST))
            return
        if error_code := self._misplaced(shard, api.groups(request, version)):
            self._count(api, error_code, None)
            call.reply(Answered(error_code))
            return
        fresh_id = self._fresh_id() if api.wants_id else ""
        event = Asked(request, version, client_id, client_host, fresh_id)
        self._shards.ask(shard, event, partial(self._answer, call, api, write))

    def _read(self, api_key: int, version: int, api: Api, body: bytes) -> tuple[Any, Write]:
        """Raises ProtocolError."""
        if api_key == OFFSET_COMMIT:
            return self._commits.read(body, version)
        return api.read(memoryview(body), version), partial(api.written, version=version)

    def _misplaced(self, shard: int, groups: Sequence[str]) -> int:
        count = self._shards.count
        if not count:
            return UNAVAILABLE
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
                log.exception("an answer cannot be written", extra=fields(api=api.name, version=call.body[2]))
                error = UNKNOWN
        self._count(api, error, answer.reply)
        call.reply(Answered(error) if error else WELL, (body,) if body else ())

    def _fresh_id(self) -> str:
        """A UUID of version 4, as Java writes it."""
        bits = self._random.getrandbits(128) & ~(0xF << 76 | 3 << 62) | 4 << 76 | 2 << 62
        text = f"{bits:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _fields(body: list[object]) -> Sequence[Any]:
    """Those of an `Ask`, without making one. Raises ContractError."""
    if [type(field) for field in body[: len(ASK_TYPES)]] == ASK_TYPES:
        return body[: len(ASK_TYPES)]
    return astuple(unpack(Ask, body))
