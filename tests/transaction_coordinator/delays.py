"""Messages between processes that come late: the test says when."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from libs.rpc.client.rpc_client import Response, RpcClient
from libs.rpc.contracts.storage import AppendReply
from libs.rpc.contracts.transactions import ADD_PARTITIONS, WRITE_MARKERS
from libs.rpc.messages.errors import DeadlineExceeded
from libs.rpc.messages.schema import unpack
from tests.support.polling import until


class DelayedMarkers:
    """Keeps the first request with markers back. Its sender hears that no answer came in time, or nothing at all."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, hangs: bool = False) -> None:
        call = RpcClient.call
        self._kept: list[Callable[[], asyncio.Future[Response]]] = []

        def delayed(rpc: RpcClient, method: str, *others: Any, **named: Any) -> "asyncio.Future[Response]":
            if method != WRITE_MARKERS or self._kept:
                return call(rpc, method, *others, **named)
            self._kept.append(lambda: call(rpc, method, *others, **named))
            lost: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
            if not hangs:
                lost.set_exception(DeadlineExceeded("the network keeps it", sent=True))
            return lost

        monkeypatch.setattr(RpcClient, "call", delayed)

    async def kept(self) -> None:
        await until(lambda: bool(self._kept))

    async def arrive(self) -> int:
        """It reaches the leader; the leader's error."""
        response = await self._kept[0]()
        (answer,) = unpack(AppendReply, response.body).partitions
        return answer.error


class DelayedAnswers:
    """Keeps a coordinator's answers to leaders back, until they are released."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        send = RpcClient.send
        self._kept: list[Callable[[], None]] = []
        self._released = False

        def delayed(rpc: RpcClient, method: str, body: object, payload: Any, on_reply: Any, **named: Any) -> int:
            if method != ADD_PARTITIONS or self._released:
                return send(rpc, method, body, payload, on_reply, **named)
            return send(rpc, method, body, payload, lambda outcome: self._kept.append(lambda: on_reply(outcome)), **named)

        monkeypatch.setattr(RpcClient, "send", delayed)

    async def kept(self) -> None:
        await until(lambda: bool(self._kept))

    def release(self) -> None:
        self._released = True
        for on_reply in self._kept:
            on_reply()
