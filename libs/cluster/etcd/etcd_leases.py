"""Renewals of leases over one lasting LeaseKeepAlive stream, as etcd's own clients send them.

A stream has an answer for each request, and the answers for one lease come in the order of its requests. A renewal that was given
up may be answered later. If the next one took that answer for its own, it would count the time to live from too late a moment. So
whoever gives up ends the stream. The next renewal opens another one, which also leaves a server that does not answer any more.
"""

import asyncio
from collections import deque

import grpc

from libs.cluster.etcd import etcd_stubs
from libs.cluster.etcd.etcd_connection import Endpoint, EtcdError, own_cancellation_only


class LeaseRenewals:
    """The stream in use. It is of the endpoint that was asked last, so it ends when that is another one: of another member, or of
    another certificate."""

    def __init__(self) -> None:
        self._stream: _Stream | None = None

    async def renew(self, endpoint: Endpoint, lease: int, timeout_s: float) -> int:
        """The seconds that the lease has from now on. 0: it is gone. Raises EtcdError."""
        stream = self._stream
        if stream is None or stream.ended or stream.endpoint is not endpoint:
            if stream is not None:
                stream.retire()
            stream = self._stream = _Stream(endpoint)
        return await stream.renew(lease, timeout_s)

    async def close(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.end(EtcdError(grpc.StatusCode.CANCELLED, "closed"))
            await asyncio.wait((stream.reader,))


class _Stream:
    """One stream, from its first renewal until it breaks, somebody gives up, or another one takes its place."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.ended = False
        self._is_retired = False
        self._call = endpoint.lease_keep_alive()
        self._writing = asyncio.Lock()  # gRPC takes one message after the other
        self._unanswered: dict[int, deque[asyncio.Future[int | EtcdError]]] = {}
        """By lease, in the order of their requests."""
        self.reader = asyncio.get_running_loop().create_task(self._read(), name="renewals of leases")

    async def renew(self, lease: int, timeout_s: float) -> int:
        answer: asyncio.Future[int | EtcdError] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout_s):
                async with self._writing:
                    self._unanswered.setdefault(lease, deque()).append(answer)
                    await own_cancellation_only(self._call.write(etcd_stubs.LeaseKeepAliveRequest(ID=lease)))
                outcome = await answer
        except TimeoutError:
            raise EtcdError(grpc.StatusCode.DEADLINE_EXCEEDED, "the renewal was not answered in time") from None
        finally:
            if answer.cancelled() or not answer.done():
                answer.cancel()
                self.end(EtcdError(grpc.StatusCode.UNAVAILABLE, "another renewal on this stream failed, or was given up"))
            self._end_if_retired()
        if isinstance(outcome, EtcdError):
            raise outcome
        return outcome

    def retire(self) -> None:
        """Another stream takes its place. It ends when nobody waits for it any more."""
        self._is_retired = True
        self._end_if_retired()

    def _end_if_retired(self) -> None:
        if self._is_retired and not self._unanswered:
            self.end(EtcdError(grpc.StatusCode.CANCELLED, "another stream took its place"))

    def end(self, reason: EtcdError) -> None:
        """Those who wait for answers hear the reason."""
        if self.ended:
            return
        self.ended = True
        self._call.cancel()
        self.reader.cancel()
        for answers in self._unanswered.values():
            for answer in answers:
                if not answer.done():
                    answer.set_result(EtcdError(reason.code, reason.details))
        self._unanswered.clear()

    async def _read(self) -> None:
        try:
            while True:
                response = await own_cancellation_only(self._call.read())
                if response is grpc.aio.EOF:
                    raise EtcdError(grpc.StatusCode.UNAVAILABLE, "the stream ended without an answer")
                self._take(response.ID, response.TTL)
        except EtcdError as error:
            self.end(error)

    def _take(self, lease: int, ttl_s: int) -> None:
        answers = self._unanswered.get(lease)
        if answers is None:
            raise EtcdError(grpc.StatusCode.INTERNAL, f"lease {lease:x} was answered, and nobody had asked")
        answer = answers.popleft()
        if not answer.done():  # it may have been given up in this turn of the loop
            answer.set_result(ttl_s)
        if not answers:
            del self._unanswered[lease]
