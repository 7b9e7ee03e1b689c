"""Children that do their work at once, in this process."""

import asyncio
from typing import TypeVar

from libs.runtime.children import Report, Work

A = TypeVar("A")
R = TypeVar("R")


class InlineChildren:
    def run(
        self, work: "Work[A, R]", argument: A, on_progress: Report | None = None, *, quiet_s: float | None = None
    ) -> "asyncio.Future[R]":
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        try:
            future.set_result(work(argument, on_progress or (lambda _: None)))
        except Exception as error:
            future.set_exception(error)
        return future

    def close(self) -> None:
        pass
