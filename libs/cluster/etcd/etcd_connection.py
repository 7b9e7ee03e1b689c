"""Channels to etcd's endpoints, and single calls over them with a deadline.

One channel per endpoint, and our own choice among them: a hung member then costs one attempt, names are resolved again
at each reconnection, and TLS checks each member's own name.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import grpc
import grpc.aio

from libs.cluster.backoff import Backoff
from libs.cluster.etcd import etcd_stubs
from libs.cluster.etcd.etcd_tls import EtcdTls
from libs.cluster.store import DENIED

log = logging.getLogger("metadata")

_OPTIONS = [
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # A watch may be silent for hours, so pings find a dead peer. etcd refuses pings that come more often than every 5 s.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", -1),  # a range of 10,000 partitions passes the default of 4 MiB
    ("grpc.use_local_subchannel_pool", 1),
]


FORMER_CERTIFICATE_S: Final = 60.0
"""For so long calls go on over a connection whose certificate was renewed. A watch then resumes over a new one."""
REFUSALS_APART_S: Final = 60.0
"""The least time between two log lines of refused calls."""
_OLD_REVISION: Final = "etcdserver: revision of auth store is old"
_NO_USER: Final = "etcdserver: user name is empty"


class EtcdError(Exception):
    """A call that etcd refused, or that it did not answer."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(f"{code.name}: {details}")
        self.code, self.details = code, details


_RETRIABLE = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,  # "too many requests"; also "no space", which the deadline ends
    }
)


class Endpoint:
    """One etcd member's methods."""

    def __init__(self, address: str, credentials: grpc.ChannelCredentials | None) -> None:
        if credentials is not None:
            channel = grpc.aio.secure_channel(address, credentials, options=_OPTIONS)
        else:
            channel = grpc.aio.insecure_channel(address, options=_OPTIONS)
        self.address = address
        self.channel = channel
        self.range = _unary(channel, "KV/Range", etcd_stubs.RangeRequest, etcd_stubs.RangeResponse)
        self.txn = _unary(channel, "KV/Txn", etcd_stubs.TxnRequest, etcd_stubs.TxnResponse)
        self.lease_grant = _unary(channel, "Lease/LeaseGrant", etcd_stubs.LeaseGrantRequest, etcd_stubs.LeaseGrantResponse)
        self.lease_revoke = _unary(channel, "Lease/LeaseRevoke", etcd_stubs.LeaseRevokeRequest, etcd_stubs.LeaseRevokeResponse)
        self.lease_keep_alive = _stream(
            channel, "Lease/LeaseKeepAlive", etcd_stubs.LeaseKeepAliveRequest, etcd_stubs.LeaseKeepAliveResponse
        )
        self.watch = _stream(channel, "Watch/Watch", etcd_stubs.WatchRequest, etcd_stubs.WatchResponse)

    @property
    def failing(self) -> bool:
        return bool(self.channel.get_state() is grpc.ChannelConnectivity.TRANSIENT_FAILURE)


class EtcdConnection:
    def __init__(self, addresses: Sequence[str], tls: EtcdTls | None, timeout_s: float) -> None:
        if not addresses:
            raise ValueError("no etcd endpoint")
        self.timeout_s = timeout_s
        self.closed = False
        self._addresses = list(addresses)
        self._tls = tls
        self._credentials = tls.credentials if tls is not None else None
        self._endpoints: list[Endpoint] = []
        self._former: set[asyncio.Task[None]] = set()
        self._current = 0
        self._may_complain_at = 0.0

    def endpoint(self) -> Endpoint:
        """The endpoint in use, or the next one that is not known to be failing."""
        if self.closed:
            raise EtcdError(grpc.StatusCode.CANCELLED, "closed")
        if self._tls is not None and self._tls.credentials is not self._credentials:
            self._renew(self._tls.credentials)
        if not self._endpoints:  # not in __init__: a grpc.aio channel belongs to the running loop
            self._endpoints = [Endpoint(address, self._credentials) for address in self._addresses]
        for _ in self._endpoints:
            if not self._endpoints[self._current].failing:
                break
            self._current = (self._current + 1) % len(self._endpoints)
        return self._endpoints[self._current]

    def _renew(self, credentials: grpc.ChannelCredentials) -> None:
        """gRPC cannot give a channel other credentials, so each endpoint gets a new one."""
        self._credentials = credentials
        for former in self._endpoints:
            closing = asyncio.ensure_future(former.channel.close(FORMER_CERTIFICATE_S))
            self._former.add(closing)
            closing.add_done_callback(self._former.discard)
        self._endpoints = []

    def move_on_from(self, endpoint: Endpoint) -> None:
        """Moves to another endpoint, since `endpoint` failed. It does nothing if that has happened already."""
        if self._endpoints and self._endpoints[self._current] is endpoint:
            self._current = (self._current + 1) % len(self._endpoints)

    async def once(self, call: Callable[[Endpoint, float], Awaitable[Any]], timeout_s: float) -> Any:
        """One attempt. Raises EtcdError."""
        endpoint = self.endpoint()
        try:
            return await own_cancellation_only(call(endpoint, timeout_s))
        except EtcdError as error:
            if error.code in _RETRIABLE:
                self.move_on_from(endpoint)
            elif error.code is grpc.StatusCode.PERMISSION_DENIED:
                self._complain(endpoint, error)
            raise

    async def until_answered(self, call: Callable[[Endpoint, float], Awaitable[Any]]) -> Any:
        """Repeats a call on one endpoint after the other until our timeout. For calls that may be repeated. Raises EtcdError."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.timeout_s
        each_s = self.timeout_s / min(len(self._addresses), 3)
        backoff = Backoff(most_s=0.5)
        while True:
            try:
                return await self.once(call, min(each_s, max(deadline - loop.time(), 0.001)))
            except EtcdError as error:
                pause = backoff.next_s()
                if error.code not in _RETRIABLE or self.closed or loop.time() + pause >= deadline:
                    raise
            await asyncio.sleep(pause)

    def _complain(self, endpoint: Endpoint, error: EtcdError) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._may_complain_at:
            self._may_complain_at = now + REFUSALS_APART_S
            told = {"endpoint": endpoint.address, "reason": str(error), "remedy": DENIED}
            log.warning("etcd refuses a call", extra={"fields": told})

    async def close(self) -> None:
        self.closed = True
        for endpoint in self._endpoints:
            await endpoint.channel.close()
        for closing in list(self._former):
            closing.cancel()
        await asyncio.gather(*self._former, return_exceptions=True)


async def own_cancellation_only(call: Awaitable[Any]) -> Any:
    """Awaits `call`; raises EtcdError for any failure of it.

    grpc.aio also raises CancelledError when the server or `close` ended a call. Our own task must not take that for its own
    cancellation: it would end silently.
    """
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        details = error.details() or ""
        raise EtcdError(_code_of(error.code(), details), details) from None
    except grpc.aio.UsageError as error:
        raise EtcdError(grpc.StatusCode.CANCELLED, str(error)) from None
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise EtcdError(grpc.StatusCode.CANCELLED, "the call was ended") from None
    except asyncio.InvalidStateError as error:  # a stream that ended before it was written to
        raise EtcdError(grpc.StatusCode.UNAVAILABLE, str(error)) from None


def _code_of(code: grpc.StatusCode, details: str) -> grpc.StatusCode:
    """etcd calls two faults of users INVALID_ARGUMENT, which the arguments are not to blame for."""
    if code is grpc.StatusCode.INVALID_ARGUMENT and details == _OLD_REVISION:
        return grpc.StatusCode.UNAVAILABLE  # somebody changed users or roles meanwhile: the same call may be made again
    if code is grpc.StatusCode.INVALID_ARGUMENT and details == _NO_USER:
        return grpc.StatusCode.PERMISSION_DENIED
    return code


def _unary(channel: Any, method: str, request: Any, response: Any) -> Any:
    return channel.unary_unary(f"/etcdserverpb.{method}", request.SerializeToString, response.FromString)


def _stream(channel: Any, method: str, request: Any, response: Any) -> Any:
    return channel.stream_stream(f"/etcdserverpb.{method}", request.SerializeToString, response.FromString)
