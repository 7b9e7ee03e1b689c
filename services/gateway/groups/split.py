"""Requests about several groups or transactional ids, or about all of them.

Each shard's owner gets its own, and the answers keep the order of the request."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from libs.lean_dataclass import dataclass
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS, TRANSACTION_APIS
from libs.wire.errors import ErrorCode
from libs.wire.listings import Listing, join, take_apart
from libs.wire.primitives import ProtocolError, Reader, Writer
from services.gateway.core.addresses import BOOTSTRAP
from services.gateway.core.coordinator_shards import CoordinatorShards
from services.gateway.data_path.served_api import Handle
from services.gateway.exchange.exchange import WrittenBody
from services.gateway.exchange.request_context import GatewayState, RequestContext

G = TypeVar("G")
A = TypeVar("A")

LISTING_WAIT_S = 5.0

UNKNOWN_SERVER_ERROR = int(ErrorCode.UNKNOWN_SERVER_ERROR)


async def list_all(
    gateway: GatewayState, context: RequestContext, key: ApiKey, body: bytes, unknown_states: Sequence[str] = ()
) -> WrittenBody | int:
    """The whole answer of ListGroups or ListTransactions, or an error. `unknown_states` is of ListTransactions.

    Listings wait for each other, at most for `LISTING_WAIT_S`. Then clients are told to retry.
    """
    try:
        async with asyncio.timeout(LISTING_WAIT_S):
            await gateway.listings.acquire()
    except TimeoutError:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    try:
        error, listings = await _ask_all(gateway, context, key, body)
        return error or WrittenBody(join(key, listings, context.api_version, unknown_states))
    finally:
        gateway.listings.release()


async def _ask_all(
    gateway: GatewayState,
    context: RequestContext,
    key: ApiKey,
    body: bytes,
) -> tuple[int, list[Listing]]:
    """The answers of all shards that the addressed broker id stands for, or of all there are, at the bootstrap port. With an
    error there are none, since clients would take a list without some shards as complete.

    A shard that only moved answers the retry, but admin clients would take NOT_COORDINATOR as final: it is
    COORDINATOR_NOT_AVAILABLE.
    """
    shards = _shards_of(gateway, key)
    shard_ids = list(range(shards.count)) if context.broker_id == BOOTSTRAP else shards.of_broker(context.broker_id)

    async def ask(shard: int) -> Listing:
        error, payload = await gateway.ask_coordinator(shard, key, body, context)
        if error:
            return Listing(error)
        try:
            return take_apart(key, payload, context.api_version)
        except ProtocolError:
            return Listing(UNKNOWN_SERVER_ERROR)

    listings = await asyncio.gather(*[ask(shard) for shard in shard_ids])
    error = next((listing.error_code for listing in listings if listing.error_code), 0)
    if error:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE if error == ErrorCode.NOT_COORDINATOR else error, []
    return 0, listings


def _shards_of(gateway: GatewayState, key: ApiKey) -> CoordinatorShards:
    return gateway.transaction_shards if key in TRANSACTION_APIS else gateway.shards


@dataclass(frozen=True, slots=True)
class MultiGroupApi(Generic[G, A]):
    """The message layout of an API that names several groups (`G`) and has an answer (`A`) for each.

    `request_for` makes a request for some of the groups. `refused` makes a group's answer from an error, in a version.
    """

    key: ApiKey
    write_request: Callable[[Writer, Any, int], None]
    read_response: Callable[[Reader, int], Any]
    group_id: Callable[[G], str]
    request_for: Callable[[list[G]], object]
    answers: Callable[[Any], list[A]]
    refused: Callable[[G, int, int], A]


def relayed(key: ApiKey, codec: Any) -> Handle:
    """A handler of requests about one group, whose owner gets them and decides. Only those go there that are denied in part:
    others are relayed as the client wrote them (`relay.py`)."""
    api = APIS[key]

    async def handle(gateway: GatewayState, context: RequestContext, request: Any) -> Any:
        version, writer = context.api_version, Writer()
        codec.write_request(writer, request, version)
        (group,) = api.shard_keys(request, version)
        body = bytes(writer.buffer)
        error, payload = await gateway.ask_coordinator(_shards_of(gateway, key).of(group), key, body, context)
        if not error:
            try:
                return codec.read_response(Reader(memoryview(payload)), version)
            except ProtocolError:
                error = UNKNOWN_SERVER_ERROR
        return api.refusal(version, body, error, group)

    return handle


async def ask_each(gateway: GatewayState, context: RequestContext, api: MultiGroupApi[G, A], groups: list[G]) -> list[A]:
    """One answer for each group, in the order of `groups`."""
    version = context.api_version
    shards = _shards_of(gateway, api.key)
    by_shard: dict[int, list[int]] = {}
    for at, group in enumerate(groups):
        by_shard.setdefault(shards.of(api.group_id(group)), []).append(at)

    async def ask(shard: int, shard_groups: list[G]) -> list[A]:
        writer = Writer()
        api.write_request(writer, api.request_for(shard_groups), version)
        error, payload = await gateway.ask_coordinator(shard, api.key, bytes(writer.buffer), context)
        if not error:
            try:
                answers = api.answers(api.read_response(Reader(memoryview(payload)), version))
            except ProtocolError:
                answers = []
            if len(answers) == len(shard_groups):
                return answers
            error = UNKNOWN_SERVER_ERROR
        return [api.refused(group, error, version) for group in shard_groups]

    answers_by_shard = await asyncio.gather(*[ask(shard, [groups[at] for at in places]) for shard, places in by_shard.items()])
    answers_by_place: dict[int, A] = {}
    for places, answers in zip(by_shard.values(), answers_by_shard, strict=True):
        answers_by_place.update(zip(places, answers, strict=True))
    return [answers_by_place[at] for at in range(len(groups))]
