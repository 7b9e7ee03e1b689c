"""Raw connections of a member: each asks one thing at a time, at whichever gateway is there."""

import asyncio
import random
import struct
from importlib import import_module
from typing import Any

from libs.wire.api_keys import ApiKey
from libs.wire.headers import RequestHeader, read_response_header, write_request_header
from libs.wire.primitives import Reader, Writer

RETRY_S = 0.05


def named(api_key: ApiKey) -> Any:
    return import_module(f"libs.wire.messages.{api_key.name.lower()}")


class Connection:
    """Opens when it is needed, and anew when it ended: a question whose answer was lost is asked again. `lives` counts."""

    def __init__(self, ports: tuple[int, ...], chance: random.Random, client_id: str) -> None:
        self._ports, self._chance, self._client_id = ports, chance, client_id
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._turn = asyncio.Lock()
        self.lives = 0

    async def ask(self, api_key: ApiKey, version: int, request: Any) -> Any:
        """The response, of the API's own message type."""
        messages = named(api_key)
        writer = Writer()
        messages.write_request(writer, request, version)
        return messages.read_response(await self.ask_raw(api_key, version, bytes(writer.buffer)), version)

    async def ask_raw(self, api_key: ApiKey, version: int, body: bytes) -> Reader:
        """A reader that stands at the response's body."""
        writer = Writer()
        write_request_header(writer, RequestHeader(api_key, version, 1, self._client_id))
        head = bytes(writer.buffer)
        frame = struct.pack(">i", len(head) + len(body)) + head + body
        async with self._turn:
            while True:
                try:
                    answer = Reader(memoryview(await self._exchange(frame)))
                except (OSError, asyncio.IncompleteReadError):
                    self.cut()
                    await asyncio.sleep(RETRY_S)
                else:
                    read_response_header(answer, api_key, version)
                    return answer

    async def _exchange(self, frame: bytes) -> bytes:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._chance.choice(self._ports), limit=1 << 20)
            self.lives += 1
        reader, writer = self._streams
        writer.write(frame)
        (length,) = struct.unpack(">i", await reader.readexactly(4))
        return await reader.readexactly(length)

    def cut(self) -> None:
        """Closes the connection at once, without a word to the other side."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None
