"""The SCRAM credentials that this gateway checks clients by, kept at the store's revision.

No image holds them, so they have a watch of their own. While the store is away, the last ones stay: an outage of it locks nobody
out. A gateway that has never read them lets nobody in.
"""

import asyncio
import logging
import secrets

from libs.cluster import keys
from libs.cluster.backoff import Backoff
from libs.cluster.codec import RecordError
from libs.cluster.scoped_watch import scoped_watch
from libs.cluster.scram_credentials import ScramCredentials
from libs.cluster.store import KeyValue, MetadataStore, StoreUnavailable, WatchGap
from libs.telemetry.logs import fields

log = logging.getLogger("metadata")

SECRET_BYTES = 32
FIRST_S_MAX = 1.0


class CredentialFollower:
    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._secret = secrets.token_bytes(SECRET_BYTES)
        self._task: asyncio.Task[None] | None = None
        self._loaded = asyncio.Event()
        self.current: ScramCredentials | None = None
        """None: they were never read."""

    async def start(self) -> None:
        """Returns when they are read, or after `FIRST_S_MAX`."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="SCRAM credentials")
        try:
            async with asyncio.timeout(FIRST_S_MAX):
                await self._loaded.wait()
        except TimeoutError:
            pass

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        backoff = Backoff()
        while True:
            try:
                revision = await self._list()
                backoff.reset()
                await self._watch(revision)
            except (StoreUnavailable, WatchGap) as error:
                log.info("SCRAM credentials are not followed for now", extra=fields(reason=str(error)))
            await asyncio.sleep(backoff.next_s())

    async def _list(self) -> int:
        listed = await self._store.range(keys.SCRAM)
        credentials = ScramCredentials(self._secret)
        for item in listed.items:
            _take(credentials, item)
        self.current = credentials
        self._loaded.set()
        return listed.revision

    async def _watch(self, revision: int) -> None:
        """Follows the store until its watch was interrupted."""
        current = self.current
        assert current is not None, "they were listed"
        async with scoped_watch(self._store, keys.SCRAM, revision + 1) as batches:
            async for batch in batches:
                if batch.resumed:
                    return
                for event in batch.events:
                    if event.value is None:
                        current.remove(event.key)
                    else:
                        _take(current, KeyValue(event.key, event.value, event.create_revision, event.mod_revision, event.lease))


def _take(credentials: ScramCredentials, item: KeyValue) -> None:
    """Its user cannot log in if it cannot be read. All others can."""
    try:
        credentials.take(item)
    except RecordError as error:
        credentials.remove(item.key)
        log.error("SCRAM credential unreadable", extra=fields(key=item.key, reason=str(error)))
