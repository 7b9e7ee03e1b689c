"""A random run of lookups by timestamp that need turns: they come, give up, and wait for disks and children, by one seed."""

import asyncio
import random
from types import SimpleNamespace
from typing import Any, cast

from libs.commitlog.segments.segment_batches import BatchPosition
from libs.commitlog.segments.timestamp_search import BatchOpening, SearchBudget
from libs.wire.record_batches.records import Record, build_batch
from libs.wire.record_batches.timestamp_walk import WalkResult
from services.storage.core.fetch.lookup_turns import LookupTurns, TooManyLookups
from services.storage.disks.disk_reads import DiskReads
from services.storage.fetch.lookup_steps import LookupSteps
from services.storage.partition.partition import Partition
from tests.storage.held_children import HeldChildren

START = 1_700_000_000_000
DISKS, PARTITIONS, WAITING_MAX = 2, 3, 6
BATCH = bytes(build_batch([Record(None, b"x", START + number) for number in range(20)], codec=4))
PLACE = BatchPosition(0, 0, 19, len(BATCH), START + 19)


class Violation(AssertionError):
    pass


class HeldReads:
    """The disks' threads, which do nothing until the run says so."""

    def __init__(self) -> None:
        self.under_way: list[tuple[str, asyncio.Future[bytes]]] = []

    async def submit(self, directory: str, work: object) -> bytes:
        done: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.under_way.append((directory.split("/")[1], done))
        return await done


class Run:
    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self.reads, self.children = HeldReads(), HeldChildren()
        self.steps = LookupSteps(cast(DiskReads, self.reads), cast(Any, self.children))
        self.steps.turns = LookupTurns(WAITING_MAX)
        self.lookups: dict[asyncio.Task[Any], int] = {}

    def begin(self) -> None:
        partition = SimpleNamespace(
            key=(b"topic", number := self._dice.randrange(PARTITIONS)),
            log=SimpleNamespace(directory=f"/disk-{self._dice.randrange(DISKS)}/topic-{number}"),
        )
        wanted = self._dice.randrange(20)
        opening = BatchOpening(lambda: BATCH, PLACE, START + wanted, 0, 1 << 20, 1000)
        self.lookups[asyncio.ensure_future(self.steps.do(cast(Partition, partition), opening))] = wanted

    def act(self) -> None:
        open_lookups = [task for task in self.lookups if not task.done()]
        match self._dice.randrange(7):
            case 0 | 1:
                self.begin()
            case 2 if open_lookups:
                for task in self._dice.sample(open_lookups, min(len(open_lookups), self._dice.choice((1, 1, 3)))):
                    task.cancel()
            case 3 | 4 if self.reads.under_way:
                self.end_read(self._dice.randrange(len(self.reads.under_way)))
            case _ if jobs := [job for job in self.children.jobs if not job.future.done()]:
                self._dice.choice((jobs[0].do, jobs[0].do, jobs[0].die))()

    def end_read(self, slot: int) -> None:
        _, read = self.reads.under_way.pop(slot)
        if self._dice.random() < 0.1:
            read.set_exception(OSError("the disk failed"))
        else:
            read.set_result(BATCH)

    def check(self) -> None:
        disks = [disk for disk, _ in self.reads.under_way]
        walks = [job for job in self.children.jobs if not job.future.done()]
        if len(disks) != len(set(disks)) or len(disks) + len(walks) > DISKS:
            raise Violation("a disk has more than one turn at a time")
        if len(walks) > len([task for task in self.lookups if not task.done()]):
            raise Violation("a child walks for nobody")
        if any(self.steps.turns.waiting_for(f"/disk-{number}") > WAITING_MAX for number in range(DISKS)):
            raise Violation("more lookups wait than may")

    def finish(self) -> None:
        if self.steps.turns.under_way or self.steps.turns.waiting:
            raise Violation("a turn is left over")
        for task, wanted in self.lookups.items():
            if not task.done():
                raise Violation("a lookup waits for ever")
            if task.cancelled() or isinstance(task.exception(), OSError | TooManyLookups):
                continue
            result: WalkResult = task.result()
            if (result.offset, result.is_exact) not in ((wanted, True), (0, False)):
                raise Violation(f"offset {result.offset} for record {wanted}")


async def settle() -> None:
    for _ in range(6):
        await asyncio.sleep(0)


async def run_lookups(seed: int, actions: int = 120) -> None:
    """Raises Violation, or what the code under test raises."""
    run, dice = Run(seed), random.Random(-seed)
    for _ in range(actions):
        run.act()
        match dice.randrange(4):  # what happens next may come at any point of what this began
            case 0:
                await asyncio.sleep(0)
            case 1:
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            case _:
                await settle()
                run.check()
    for _ in range(actions * 3):
        if run.reads.under_way:
            run.end_read(0)
        for job in run.children.jobs:
            job.do()
        await settle()
    run.finish()


def spends_all(budget: SearchBudget) -> bool:
    """Whether openings use a budget up."""
    for _ in range(1000):
        if budget.is_spent:
            return True
        budget.take(WalkResult(-1, -1, -1, True, 1, 1))
    return False
