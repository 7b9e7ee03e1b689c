"""What members of both protocols have in common: they live until they are told to leave, or crash."""

import asyncio
import time
from typing import Any

from libs.wire.api import ApiKey
from libs.wire.errors import ErrorCode
from tests.storm.reading import FENCED, PASSING, Fenced, Reading, Scene

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
        """In order: it commits, lets go, and says so."""
        self.leaving.set()
        reading, living = self._tasks
        await living
        reading.cancel()
        await asyncio.wait([reading])
        self._cut()

    def crash(self) -> None:
        """In the middle of whatever it does."""
        for task in self._tasks:
            task.cancel()
        self._cut()
        self.reading.lose("crashed")

    def failure(self) -> BaseException | None:
        """What ended it that should not."""
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
        assert error in PASSING, f"{self.name}: {api_key.name}: {ErrorCode(error).name}"
        await asyncio.sleep(RETRY_S)
        return None

    async def rest(self) -> None:
        """Until the next heartbeat, or until it is to leave."""
        try:
            async with asyncio.timeout(self.scene.heartbeat_s):
                await self.leaving.wait()
        except TimeoutError:
            pass
