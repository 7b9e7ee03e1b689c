"""A watch that closes where its scope ends."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from libs.cluster.store import MetadataStore, WatchBatch


@asynccontextmanager
async def scoped_watch(store: MetadataStore, prefix: str, from_revision: int) -> AsyncIterator[AsyncIterator[WatchBatch]]:
    """`store.watch`, closed when the block ends: an abandoned generator would keep its stream until it is collected."""
    batches = store.watch(prefix, from_revision)
    try:
        yield batches
    finally:
        await cast("AsyncGenerator[WatchBatch, None]", batches).aclose()
