"""What the runs of simulated clusters share: processes that are started again, conditions within a bound, tasks that must end."""

import asyncio
import traceback
from collections.abc import Callable, Mapping, Sequence

from libs.cluster import keys
from libs.cluster.codec import decode
from libs.cluster.memory.memory_keyspace import Keyspace
from libs.cluster.records import Topic
from services.storage.partition.partition import Key
from tests.simulation.cluster.invariants import Invariants
from tests.simulation.cluster.loop import Deadlock, Spinning
from tests.simulation.cluster.processes import Process
from tests.simulation.cluster.service_logs import ServiceLogs
from tests.simulation.cluster.world import World

LIVE_S = 90.0
LOOK_EVERY_S = 0.05


class RunPhases:
    """A run of one seed. Who inherits has `_run`, and sets the attributes below before `play`."""

    world: World
    processes: Sequence[Process]
    invariants: Invariants
    logs: ServiceLogs
    starts_again_every_s = 0.5
    _names: Mapping[bytes, str] = {}
    """The names of topics by id."""
    _names_in: tuple[Keyspace, int, int] | None = None
    """The store, the number of its restorations and its revision that have them."""

    async def _run(self) -> None:
        raise NotImplementedError

    def play(self, *, until_caught: bool) -> None:
        """Runs to the end. `until_caught`: or to the first violation."""
        self.logs.begin()
        try:
            self.world.loop.run(self._until_caught() if until_caught else self._run())
        except (Deadlock, Spinning, TimeoutError) as error:
            self.world.violation(f"15: {type(error).__name__}: {error}")
        finally:
            self.logs.end()

    def discard(self) -> None:
        """Lets go of all that half-ran. The run is of no use any more."""
        loop = self.world.loop
        with loop.discarding():
            for process in self.processes:
                process.__dict__.clear()
            self.__dict__.clear()
            loop.close()

    async def _until_caught(self) -> None:
        running = self._start(self._run)
        while not running.done() and not self.world.violations:
            await asyncio.wait([running], timeout=1.0)
        if running.done():
            await running

    def _start(self, work: Callable[[], object]) -> "asyncio.Task[None]":
        return asyncio.get_running_loop().create_task(work())  # type: ignore[arg-type]

    async def _ended(self, tasks: "list[asyncio.Task[None]]", who: str) -> None:
        await asyncio.wait(tasks, timeout=LIVE_S)
        for task in tasks:
            if not task.done():
                self.world.violation(f"15: {who} does not come to its end")
            elif (error := task.exception()) is not None:
                self.world.violation(f"1: {who} cannot go on: {''.join(traceback.format_exception(error)).strip()}")

    async def _until(self, missing: Callable[[], str], bound_s: float, complaint: str) -> bool:
        loop = self.world.loop
        deadline = loop.time() + bound_s
        while said := missing():
            if loop.time() > deadline:
                self.world.violation(f"15: {complaint} after {bound_s:.0f} s: {said}")
                return False
            await asyncio.sleep(0.1)
        return True

    # --- what goes on beside

    async def _look(self) -> None:
        while True:
            self.invariants.look()
            await asyncio.sleep(LOOK_EVERY_S)

    def _start_processes(self) -> None:
        """Starts all. A service may have started with another of its process."""
        for process in self.processes:
            if not process.running:
                process.start()

    async def _supervise(self) -> None:
        """Starts again what ended by itself."""
        while True:
            await asyncio.sleep(self.starts_again_every_s)
            for process in self.processes:
                if process.startable:
                    process.start()

    # --- conditions

    def _ready(self) -> str:
        """The reason why the cluster is not ready."""
        for process in self.processes:
            if not process.running or process.what is None:
                return f"{process.host} does not run"
            ready, reason = process.what.ready()
            if not ready:
                return f"{process.host}: {reason}"
        return ""

    def _name_of(self, key: Key) -> str:
        keyspace = self.world.keyspace
        store = keyspace, keyspace.restorations, keyspace.revision
        names = self._names
        if self._names_in != store:
            topics = [decode(Topic, item.value) for item in keyspace.range(keys.TOPICS).items]
            names = {bytes.fromhex(topic.topic_id): topic.name for topic in reversed(topics)}
            self._names_in, self._names = store, names
        name = names.get(key[0])
        return f"{name}-{key[1]}" if name is not None else f"{key[0].hex()[:8]}-{key[1]}"
