"""Channels to etcd's endpoints, and single calls over them with a deadline.

One channel per endpoint, and our own choice among them: a hung member then costs one attempt, names are resolved again
at each reconnection, and TLS checks each member's own name.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from libs.cluster.backoff import Backoff
from libs.cluster.etcd import etcd_stubs
from libs.lean_dataclass import dataclass

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


class EtcdError(Exception):
    """A call that etcd refused, or that it did not answer."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(f"{code.name}: {details}")
        self.code = code


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


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM files. Without `certificate` the client stays anonymous."""

    ca: str
    certificate: str | None = None
    key: str | None = None

    def credentials(self) -> grpc.ChannelCredentials:
        return grpc.ssl_channel_credentials(
            root_certificates=Path(self.ca).read_bytes(),
            private_key=Path(self.key).read_bytes() if self.key else None,
            certificate_chain=Path(self.certificate).read_bytes() if self.certificate else None,
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
    def __init__(self, addresses: Sequence[str], tls: Tls | None, timeout_s: float) -> None:
        if not addresses:
            raise ValueError("no etcd endpoint")
        self.timeout_s = timeout_s
        self.closed = False
        self._addresses = list(addresses)
        self._credentials = tls.credentials() if tls is not None else None
        self._endpoints: list[Endpoint] = []
        self._current = 0

    def endpoint(self) -> Endpoint:
        """The endpoint in use, or the next one that is not known to be failing."""
        if self.closed:
            raise EtcdError(grpc.StatusCode.CANCELLED, "closed")
        if not self._endpoints:  # not in __init__: a grpc.aio channel belongs to the running loop
            self._endpoints = [Endpoint(address, self._credentials) for address in self._addresses]
        for _ in self._endpoints:
            if not self._endpoints[self._current].failing:
                break
            self._current = (self._current + 1) % len(self._endpoints)
        return self._endpoints[self._current]

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

    async def close(self) -> None:
        self.closed = True
        for endpoint in self._endpoints:
            await endpoint.channel.close()


async def own_cancellation_only(call: Awaitable[Any]) -> Any:
    """Awaits `call`; raises EtcdError for any failure of it.

    grpc.aio also raises CancelledError when the server or `close` ended a call. Our own task must not take that for its own
    cancellation: it would end silently.
    """
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        raise EtcdError(error.code(), error.details() or "") from None
    except grpc.aio.UsageError as error:
        raise EtcdError(grpc.StatusCode.CANCELLED, str(error)) from None
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise EtcdError(grpc.StatusCode.CANCELLED, "the call was ended") from None
    except asyncio.InvalidStateError as error:  # a stream that ended before it was written to
        raise EtcdError(grpc.StatusCode.UNAVAILABLE, str(error)) from None


def _unary(channel: Any, method: str, request: Any, response: Any) -> Any:
    return channel.unary_unary(f"/etcdserverpb.{method}", request.SerializeToString, response.FromString)


def _stream(channel: Any, method: str, request: Any, response: Any) -> Any:
    return channel.stream_stream(f"/etcdserverpb.{method}", request.SerializeToString, response.FromString)
