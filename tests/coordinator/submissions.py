"""Events submitted to shards one at a time, each answer as a future. Events of one turn of the loop share an append."""

import asyncio
from typing import Any

from libs.coordinator.core.pending import Answer
from libs.coordinator.shards.driver import ShardDriver
from libs.coordinator.shards.shard_set import ShardSet

Answered = asyncio.Future[Answer[Any, Any]]


def submit_to_driver(driver: ShardDriver[Any, Any, Any], event: object) -> Answered:
    answered = _future()
    if driver.submit(event, answered.set_result):
        asyncio.get_running_loop().call_soon(driver.append)
    return answered


def submit_to_shard(shards: ShardSet[Any, Any, Any], index: int, event: object) -> Answered:
    answered = _future()
    shards.submit(index, event, answered.set_result)
    asyncio.get_running_loop().call_soon(shards.end_turn)
    return answered


def _future() -> Answered:
    return asyncio.get_running_loop().create_future()
