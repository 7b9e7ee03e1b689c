"""Several endless jobs as one: the first that fails ends them all, with its own exception."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def run_until_one_fails(*jobs: Coroutine[Any, Any, None]) -> None:
    tasks = [asyncio.ensure_future(job) for job in jobs]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
