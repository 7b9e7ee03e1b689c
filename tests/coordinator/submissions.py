"""Shards asked one event at a time, each answer as a future. What is asked in one turn of the loop shares an append."""

import asyncio
from typing import Any

from libs.runtime.shards.driver import ShardDriver
from libs.runtime.shards.pending import Answer
from libs.runtime.shards.shard_set import ShardSet

Answered = asyncio.Future[Answer[Any, Any]]


def ask_driver(driver: ShardDriver[Any, Any, Any], event: object) -> Answered:
    answered = _future()
    if driver.ask(event, answered.set_result):
        asyncio.get_running_loop().call_soon(driver.append)
    return answered


def ask_shard(shards: ShardSet[Any, Any, Any], index: int, event: object) -> Answered:
    answered = _future()
    shards.ask(index, event, answered.set_result)
    asyncio.get_running_loop().call_soon(shards.end_turn)
    return answered


def _future() -> Answered:
    return asyncio.get_running_loop().create_future()
