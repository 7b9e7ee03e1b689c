"""The metadata store on etcd, over the gRPC methods that the `etcd3` package describes (docs/adr/0001)."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import grpc

from libs.cluster.etcd import etcd_stubs
from libs.cluster.etcd.etcd_connection import Endpoint, EtcdConnection, EtcdError
from libs.cluster.etcd.etcd_leases import LeaseRenewals
from libs.cluster.etcd.etcd_tls import EtcdTls
from libs.cluster.etcd.etcd_watch import watch
from libs.cluster.store import (
    Compare,
    CreateRevisionIs,
    Delete,
    KeyValue,
    Operation,
    Outcome,
    RangeResult,
    StoreUnavailable,
    TxnResult,
    WatchBatch,
)
from libs.cluster.transactions import check_transaction


class EtcdStore:
    """The metadata store in etcd. Every call ends within `timeout_s`. Reads and lease calls are repeated within it, on one
    endpoint after the other.

    Endpoints are "host:port". One event loop uses it.
    """

    def __init__(self, endpoints: Sequence[str], *, tls: EtcdTls | None = None, timeout_s: float = 5.0) -> None:
        self._connection = EtcdConnection(endpoints, tls, timeout_s)
        self._renewals = LeaseRenewals()

    async def get(self, key: str) -> KeyValue | None:
        response = await self._read(etcd_stubs.RangeRequest(key=key.encode()))
        return _key_value(response.kvs[0]) if response.kvs else None

    async def range(self, prefix: str) -> RangeResult:
        response = await self._read(etcd_stubs.RangeRequest(key=prefix.encode(), range_end=prefix_end(prefix)))
        return RangeResult(tuple([_key_value(item) for item in response.kvs]), response.header.revision)

    async def txn(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> TxnResult:
        """Raises ValueError for a transaction that etcd would never accept."""
        check_transaction(compares, operations)
        request = etcd_stubs.TxnRequest(
            compare=[_compare(compare) for compare in compares], success=[_operation(operation) for operation in operations]
        )
        try:
            response = await self._connection.once(lambda on, timeout_s: on.txn(request, timeout=timeout_s), self._timeout_s)
        except EtcdError as error:
            if error.code is grpc.StatusCode.INVALID_ARGUMENT:
                raise ValueError(str(error)) from None
            if error.code is grpc.StatusCode.NOT_FOUND:
                return await self._lease_gone(request.success[0].request_put.key)
            is_denied = error.code is grpc.StatusCode.PERMISSION_DENIED
            return TxnResult(Outcome.DENIED if is_denied else Outcome.UNKNOWN, 0)
        return TxnResult(Outcome.OK if response.succeeded else Outcome.CONFLICT, response.header.revision)

    def watch(self, prefix: str, from_revision: int) -> AsyncIterator[WatchBatch]:
        return watch(self._connection, prefix.encode(), prefix_end(prefix), from_revision)

    async def grant_lease(self, ttl_s: int) -> int:
        """etcd raises a short `ttl_s` to its minimum: 1.5 × its election timeout, 2 s by default."""
        request = etcd_stubs.LeaseGrantRequest(TTL=ttl_s)
        response = await self._answered(lambda on, timeout_s: on.lease_grant(request, timeout=timeout_s))
        return int(response.ID)

    async def keep_alive(self, lease: int) -> int:
        async def renew(on: Endpoint, timeout_s: float) -> int:
            try:
                return await self._renewals.renew(on, lease, timeout_s)
            except asyncio.CancelledError:
                # A lease has less time than our timeout, and its holder gave up. The next try must not wait for the same member.
                self._connection.move_on_from(on)
                raise

        return int(await self._answered(renew))

    async def revoke_lease(self, lease: int) -> None:
        request = etcd_stubs.LeaseRevokeRequest(ID=lease)
        try:
            await self._connection.once(lambda on, timeout_s: on.lease_revoke(request, timeout=timeout_s), self._timeout_s)
        except EtcdError:
            pass  # it is gone already, or it will expire

    async def close(self) -> None:
        """Closes the connections. Calls that are still in flight raise StoreUnavailable, or answer UNKNOWN."""
        await self._connection.close()
        await self._renewals.close()

    @property
    def _timeout_s(self) -> float:
        return self._connection.timeout_s

    async def _read(self, request: Any) -> Any:
        return await self._answered(lambda on, timeout_s: on.range(request, timeout=timeout_s))

    async def _answered(self, call: Any) -> Any:
        try:
            return await self._connection.until_answered(call)
        except EtcdError as error:
            raise StoreUnavailable(str(error)) from None

    async def _lease_gone(self, key: bytes) -> TxnResult:
        """Whether a transaction was refused since its lease is gone. etcd then wrote nothing, so it counts as a comparison that
        failed. `key`: one that this process may read."""
        try:
            header = (await self._read(etcd_stubs.RangeRequest(key=key, count_only=True))).header
        except StoreUnavailable:
            return TxnResult(Outcome.UNKNOWN, 0)
        return TxnResult(Outcome.CONFLICT, header.revision)


def prefix_end(prefix: str) -> bytes:
    """The first key after all that start with `prefix`. "" means every key, which etcd writes as b"\\0"."""
    head = prefix.encode().rstrip(b"\xff")
    return head[:-1] + bytes([head[-1] + 1]) if head else b"\0"


def _key_value(item: Any) -> KeyValue:
    return KeyValue(item.key.decode(), item.value, item.create_revision, item.mod_revision, item.lease)


def _compare(compare: Compare) -> Any:
    if isinstance(compare, CreateRevisionIs):
        return etcd_stubs.Compare(result="EQUAL", target="CREATE", key=compare.key.encode(), create_revision=compare.revision)
    return etcd_stubs.Compare(result="EQUAL", target="MOD", key=compare.key.encode(), mod_revision=compare.revision)


def _operation(operation: Operation) -> Any:
    key = operation.key.encode()
    if isinstance(operation, Delete):
        end = prefix_end(operation.key) if operation.prefix else b""
        return etcd_stubs.RequestOp(request_delete_range={"key": key, "range_end": end})
    return etcd_stubs.RequestOp(request_put={"key": key, "value": operation.value, "lease": operation.lease})
