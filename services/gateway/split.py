"""Requests about several groups: each shard's owner is asked for its own, and the answers come in the order of the request."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from libs.wire.api import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.primitives import ProtocolError, Reader, Writer
from services.gateway.state import GatewayState, RequestContext

G = TypeVar("G")
A = TypeVar("A")

UNKNOWN = int(ErrorCode.UNKNOWN_SERVER_ERROR)


@dataclass(frozen=True, slots=True)
class Batched(Generic[G, A]):
    """How an API's messages hold groups (`G`) and their answers (`A`). `request_for` makes the request for some of its groups.
    `refused` makes a group's answer of an error, in a version."""

    key: ApiKey
    write_request: Callable[[Writer, Any, int], None]
    read_response: Callable[[Reader, int], Any]
    group_id: Callable[[G], str]
    request_for: Callable[[list[G]], object]
    answers: Callable[[Any], list[A]]
    refused: Callable[[G, int, int], A]


async def ask_each(gateway: GatewayState, context: RequestContext, batched: Batched[G, A], groups: list[G]) -> list[A]:
    """An answer for each of the groups, in their order."""
    version = context.api_version
    shards = gateway.shards
    by_shard: dict[int, list[int]] = {}
    for at, group in enumerate(groups):
        by_shard.setdefault(shards.of(batched.group_id(group)), []).append(at)

    async def ask(shard: int, asked: list[G]) -> list[A]:
        writer = Writer()
        batched.write_request(writer, batched.request_for(asked), version)
        error, payload = await gateway.ask_shard(shard, batched.key, bytes(writer.buffer), context)
        if not error:
            try:
                answers = batched.answers(batched.read_response(Reader(memoryview(payload)), version))
            except ProtocolError:
                answers = []
            if len(answers) == len(asked):
                return answers
            error = UNKNOWN
        return [batched.refused(group, error, version) for group in asked]

    answered = await asyncio.gather(*[ask(shard, [groups[at] for at in places]) for shard, places in by_shard.items()])
    found: dict[int, A] = {}
    for places, answers in zip(by_shard.values(), answered, strict=True):
        found.update(zip(places, answers, strict=True))
    return [found[at] for at in range(len(groups))]
