"""The common part of members of both protocols: they live until they are stopped, or crash."""

import asyncio
import time
from typing import Any

from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from tests.system.storm.reading import FENCED, RETRIABLE_ERRORS, Fenced, Reading, Scene

RETRY_S = 0.05


class Member:
    protocol = ""

    def __init__(self, scene: Scene, name: str) -> None:
        self.name, self.scene = name, scene
        self.member_id, self.epoch = "", -1
        self.reading = Reading(scene, name, lambda: (self.member_id, self.epoch))
        self.connection = scene.connection(name)
        self.leaving = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self.reading.work()), asyncio.create_task(self._live())]

    async def leave(self) -> None:
        """Leaves in order: commits, gives up its partitions, and sends LeaveGroup."""
        self.leaving.set()
        reading, living = self._tasks
        await living
        reading.cancel()
        await asyncio.wait([reading])
        self._cut()

    def crash(self) -> None:
        """Ends the member in the middle of its work."""
        for task in self._tasks:
            task.cancel()
        self._cut()
        self.reading.lose("crashed")

    def failure(self) -> BaseException | None:
        """The unexpected error that ended the member."""
        for task in self._tasks:
            if task.done() and not task.cancelled() and task.exception() is not None:
                return task.exception()
        return None

    def _cut(self) -> None:
        self.connection.cut()
        self.reading.cut()

    async def _live(self) -> None:
        while not self.leaving.is_set():
            try:
                await self.belong()
            except Fenced:
                self.reading.lose("fenced")
                self.forgotten()
        try:
            await self.reading.let_go(self.reading.owned)
        except Fenced:
            self.reading.lose("fenced")
        await self.say_goodbye()

    async def belong(self) -> None:
        """Raises Fenced. Returns when there is something to think about again, or when it is to leave."""
        raise NotImplementedError

    def forgotten(self) -> None:
        raise NotImplementedError

    async def say_goodbye(self) -> None:
        raise NotImplementedError

    async def ask(self, api_key: ApiKey, version: int, request: Any) -> Any:
        """The answer, or None if it is to be asked again. Raises Fenced."""
        asked_at = time.monotonic()
        answer = await self.connection.ask(api_key, version, request)
        error = answer.error_code
        if error in (0, ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS):
            self.scene.ledger.alive(self.name, asked_at)
            return answer
        if error in FENCED:
            raise Fenced
        assert error in RETRIABLE_ERRORS, f"{self.name}: {api_key.name}: {ErrorCode(error).name}"
        await asyncio.sleep(RETRY_S)
        return None

    async def rest(self) -> None:
        """Waits until the next heartbeat, or until the member is to leave."""
        try:
            async with asyncio.timeout(self.scene.heartbeat_s):
                await self.leaving.wait()
        except TimeoutError:
            pass
