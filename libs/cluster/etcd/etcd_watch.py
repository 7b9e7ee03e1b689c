"""One etcd watch that reconnects by itself and never splits a revision.

etcd sends whole revisions unless a client asks for fragments, which we do not. After a lost connection the watch continues on the
next endpoint, from the last revision that it handed out. etcd does not say when its history is another one (restored or
replaced): a watch from a revision that it has not reached yet stays silent. So the watch checks that itself. A history that is
another one and has a higher revision cannot be told from the watch: a batch without events says that there was an interruption.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import grpc

from libs.cluster.backoff import Backoff
from libs.cluster.etcd import etcd_stubs
from libs.cluster.etcd.etcd_connection import Endpoint, EtcdConnection, EtcdError, own_cancellation_only
from libs.cluster.store import StoreUnavailable, WatchBatch, WatchEvent, WatchGap

log = logging.getLogger("metadata")

# With this, a member that is cut off from its cluster ends the stream instead of staying silent.
_REQUIRE_LEADER = (("hasleader", "true"),)


async def watch(connection: EtcdConnection, key: bytes, range_end: bytes, from_revision: int) -> AsyncIterator[WatchBatch]:
    """Watches a prefix. Raises WatchGap, and StoreUnavailable once the store is closed."""
    backoff = Backoff()
    cluster_id = 0
    interrupted = False
    while True:
        if connection.closed:
            raise StoreUnavailable("closed")
        endpoint = connection.endpoint()
        call = endpoint.watch(metadata=_REQUIRE_LEADER)
        try:
            created = await _create(call, connection.timeout_s, key, range_end, from_revision)
            await _check_history(connection, endpoint, created, cluster_id, key, from_revision)
            cluster_id = created.header.cluster_id
            backoff.reset()
            if interrupted:
                interrupted = False
                log.info("watch resumed", extra={"fields": {"endpoint": endpoint.address}})
                yield WatchBatch((), from_revision - 1, resumed=True)
            while True:
                response = await _read(call)
                batch = _batch(response, from_revision)
                if batch is not None:
                    from_revision = batch.revision + 1
                    yield batch
        except EtcdError as error:
            connection.move_on_from(endpoint)
            if not connection.closed and not interrupted:
                interrupted = True
                log.info("watch interrupted", extra={"fields": {"endpoint": endpoint.address, "reason": str(error)}})
        finally:
            call.cancel()
        await asyncio.sleep(backoff.next_s())


async def _create(call: Any, timeout_s: float, key: bytes, range_end: bytes, from_revision: int) -> Any:
    create = {"key": key, "range_end": range_end, "start_revision": from_revision, "progress_notify": True}
    try:
        async with asyncio.timeout(timeout_s):
            await own_cancellation_only(call.write(etcd_stubs.WatchRequest(create_request=create)))
            response = await _read(call)
    except TimeoutError:
        raise EtcdError(grpc.StatusCode.DEADLINE_EXCEEDED, "the watch was not created in time") from None
    if not response.created:
        raise EtcdError(grpc.StatusCode.INTERNAL, "the watch was answered before it was created")
    return response


async def _read(call: Any) -> Any:
    response = await own_cancellation_only(call.read())
    if response is grpc.aio.EOF:
        raise EtcdError(grpc.StatusCode.UNAVAILABLE, "the stream ended")
    if response.canceled:
        compacted = response.compact_revision
        raise WatchGap(f"compacted up to {compacted}" if compacted else f"cancelled: {response.cancel_reason}")
    return response


async def _check_history(
    connection: EtcdConnection, endpoint: Endpoint, created: Any, cluster_id: int, key: bytes, from_revision: int
) -> None:
    if cluster_id and created.header.cluster_id != cluster_id:
        raise WatchGap("another etcd cluster answers")
    if created.header.revision >= from_revision - 1:
        return
    # Either this member lags behind, or the store's history is shorter than it was. A linearizable read tells which, since it
    # never lags. It is of a key that this process may read.
    request = etcd_stubs.RangeRequest(key=key or b"\0", count_only=True)
    current = await own_cancellation_only(endpoint.range(request, timeout=connection.timeout_s))
    if current.header.revision < from_revision - 1:
        raise WatchGap(f"the store is at revision {current.header.revision}, before {from_revision}")


def _batch(response: Any, from_revision: int) -> WatchBatch | None:
    """The batch of events in `response` from `from_revision` on. A response without events is a progress report: nothing happened
    up to its revision."""
    if not response.events:
        revision = response.header.revision
        return WatchBatch((), revision) if revision >= from_revision and not response.created else None
    events = tuple([_event(event) for event in response.events if event.kv.mod_revision >= from_revision])
    return WatchBatch(events, events[-1].mod_revision) if events else None


def _event(event: Any) -> WatchEvent:
    item = event.kv
    if event.type == etcd_stubs.DELETE_EVENT:
        return WatchEvent(item.key.decode(), None, item.mod_revision)
    return WatchEvent(item.key.decode(), item.value, item.mod_revision, item.create_revision, item.lease)
