"""Child processes that do nothing until the test says so: jobs can be kept, done in any order, or die."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from libs.runtime.children import ChildDied, Report


@dataclass(eq=False)
class HeldJob:
    work: Callable[[Any, Report], Any]
    argument: Any
    future: "asyncio.Future[Any]"

    def do(self) -> None:
        if not self.future.done():
            self.future.set_result(self.work(self.argument, lambda _: None))

    def die(self) -> None:
        self.future.set_exception(ChildDied("killed by the test"))
        self.future.exception()  # whoever waited may be gone: nobody is to be told at the next collection, amid another test


class HeldChildren:
    """`jobs`: all that were begun, in order."""

    def __init__(self) -> None:
        self.jobs: list[HeldJob] = []
        self.held = True

    def run(
        self,
        work: Callable[[Any, Report], Any],
        argument: Any,
        on_progress: Report | None = None,
        *,
        quiet_s: float | None = None,
    ) -> "asyncio.Future[Any]":
        job = HeldJob(work, argument, asyncio.get_running_loop().create_future())
        self.jobs.append(job)
        if not self.held:
            job.do()
        return job.future

    def release(self) -> None:
        self.held = False
        for job in self.jobs:
            job.do()

    def close(self) -> None:
        for job in self.jobs:
            job.future.cancel()
