"""The faults of a run, drawn by the seed: each fault begins, lasts, and heals."""

import asyncio
import errno
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from random import Random

from libs.cluster import keys
from libs.cluster.records import GROUP_COORDINATOR, STORAGE, TRANSACTION_COORDINATOR
from tests.simulation.cluster.coordinator_process import CoordinatorProcess, TransactionCoordinatorProcess
from tests.simulation.cluster.processes import STORE_HOST, ControllerProcess, GatewayProcess, Process, StorageProcess
from tests.simulation.cluster.world import World

PAUSE_S = 2.2
TOGETHER = 3
OPERATOR_S = 4.0
JUMPS_MS = (500, 5_000, 60_000, 3_600_000)
STORAGE_JUMPS_MS = (500, 5_000, 900_000, 3_600_000)
"""Storage believes a jump ahead of less than ten minutes, and the partitions here forget producers after less than two."""
STOP_S_MAX, LOOK_S = 30.0, 0.2
"""Of the time in which it runs: who is told to stop may be paused meanwhile."""
RETIRED_MARK = "/data/logs/.retired"


class Faults:
    """`run` until cancelled; `heal` ends whatever still is wrong.

    `kinds`: faults of no other names are drawn, of all if empty. `share`: of the usual time that a fault lasts. `may_begin`:
    whether the next one may begin now.
    """

    def __init__(
        self,
        world: World,
        processes: Sequence[Process],
        clients: Sequence[str],
        *,
        kinds: Collection[str] = (),
        share: float = 1.0,
        may_begin: Callable[[], bool] = lambda: True,
    ) -> None:
        self.world, self.processes, self.clients = world, processes, list(clients)
        self.storage = [process for process in processes if isinstance(process, StorageProcess)]
        self.random: Random = world.stream("faults")
        self.count = 0
        self.kinds: dict[str, int] = {}
        self._active: dict[asyncio.Task[None], str] = {}
        self._menu: list[tuple[int, str, Callable[[], Awaitable[None]]]] = [
            (4, "storage killed", self.kill_storage),
            (4, "storage loses power", self.power_cut),
            (2, "storage loses power amid a write", self.power_cut_amid),
            (2, "storage is told to stop", lambda: self._stop(StorageProcess)),
            (3, "storage paused", self._pause_storage),
            (2, "controller killed", lambda: self._kill(ControllerProcess)),
            (1, "controller paused", lambda: self._pause(ControllerProcess)),
            (2, "gateway killed", lambda: self._kill(GatewayProcess)),
            (1, "gateway paused", lambda: self._pause(GatewayProcess)),
            (3, "group coordinator killed", lambda: self._kill(CoordinatorProcess)),
            (2, "group coordinator paused", lambda: self._pause(CoordinatorProcess)),
            (1, "group coordinator is told to stop", lambda: self._stop(CoordinatorProcess)),
            (3, "transaction coordinator killed", lambda: self._kill(TransactionCoordinatorProcess)),
            (3, "transaction coordinator paused", lambda: self._pause(TransactionCoordinatorProcess)),
            (1, "transaction coordinator is told to stop", lambda: self._stop(TransactionCoordinatorProcess)),
            (3, "partition", self._partition),
            (3, "one-way partition", self._one_way),
            (2, "cut from the store", self._cut_from_store),
            (1, "half cut from the store", self._half_cut_from_store),
            (2, "group coordinator deposed unawares", partial(self._deposed_unawares, CoordinatorProcess, GROUP_COORDINATOR)),
            (
                *(2, "transaction coordinator deposed unawares"),
                partial(self._deposed_unawares, TransactionCoordinatorProcess, TRANSACTION_COORDINATOR),
            ),
            (3, "storage deposed unawares", partial(self._deposed_unawares, StorageProcess, STORAGE)),
            (2, "slow link", self._slow_link),
            (2, "connections reset", self._reset),
            (2, "slow disk", self._slow_disk),
            (1, "failed fsync", self._failed_fsync),
            (1, "disk full", self._full_disk),
            (1, "store outage", self._store_outage),
            (2, "store answers lost", self._store_unknown),
            (2, "writes to the store come late", self._store_late),
            (2, "lease lost", self._lease_lost),
            (1, "watches cancelled", self._watches_cancelled),
            (1, "history compacted", self._compaction),
            (1, "clock jumps", self._clock_jump),
        ]
        if kinds:
            self._menu = [each for each in self._menu if each[1] in kinds]
        self._share, self._may_begin = share, may_begin

    async def run(self) -> None:
        weights = [weight for weight, _, _ in self._menu]
        while True:
            await asyncio.sleep(self.random.expovariate(1 / PAUSE_S))
            if len(self._active) >= TOGETHER or not self._may_begin():
                continue
            _, name, fault = self.random.choices(self._menu, weights)[0]
            self.count += 1
            self.kinds[name] = self.kinds.get(name, 0) + 1
            self.world.log_event(f"FAULT {name}")
            task = asyncio.get_running_loop().create_task(self._one(fault))
            self._active[task] = name
            task.add_done_callback(lambda done: self._active.pop(done))

    async def _one(self, fault: Callable[[], Awaitable[None]]) -> None:
        await fault()

    async def heal(self) -> None:
        """Ends the faults that are under way: each heals in its `finally`."""
        active = list(self._active)
        for task in active:
            task.cancel()
        await asyncio.gather(*active, return_exceptions=True)
        for process in self.processes:
            process.slowness.factor = 1.0
            process.disk.faults.heal()
            process.disk.before = None
            process.resume()
            self._operate(process)

    async def _for(self, least_s: float, most_s: float) -> None:
        await asyncio.sleep(self._share * self.random.uniform(least_s, most_s))

    def _some(self, kind: type[Process] | None = None) -> Process | None:
        found = [each for each in self.processes if each.running and not each.paused and (kind is None or isinstance(each, kind))]
        return self.random.choice(found) if found else None

    # --- processes

    async def kill_storage(self) -> None:
        await self._kill(StorageProcess)

    async def kill_all_storage(self) -> None:
        up = [process for process in self.storage if process.running and not process.paused and not process.held_down]
        await asyncio.gather(*(self._kill_one(process) for process in up))

    async def _kill(self, kind: type[Process]) -> None:
        process = self._some(kind)
        if process is not None:
            await self._kill_one(process)

    async def _kill_one(self, process: Process) -> None:
        process.held_down = True
        process.kill()
        try:
            await self._for(0.05, 6.0)
        finally:
            process.held_down = False

    async def power_cut(self) -> None:
        process = self._some(StorageProcess)
        if process is not None:
            await self._dark(process)

    async def _dark(self, process: Process) -> None:
        process.held_down = True
        process.power_cut()
        try:
            await self._for(0.2, 8.0)
        finally:
            process.held_down = False
            if not process.running:  # else another fault of this host has ended, and switched it on
                self.repair(process)
                process.start()

    def repair(self, process: Process) -> None:
        """An operator's repair of a failed disk: the host is rebooted, so that the disk and not the page cache counts."""
        if process.disk.exists(RETIRED_MARK):
            process.disk.unlink(RETIRED_MARK)
            self.world.log_event(f"{process.host}: the mark of the failed disk is removed")

    async def power_cut_amid(self) -> None:
        process = self._some(StorageProcess)
        if process is None:
            return
        process.held_down = True
        starts = process.starts
        process.power_cut_at(self.random.randrange(60))
        try:
            await self._for(1.0, 6.0)
        finally:
            process.disk.before = None
            process.held_down = False
            if not process.running and process.starts == starts:
                self.repair(process)
                process.start()

    async def _stop(self, kind: type[Process]) -> None:
        process = self._some(kind)
        if process is None:
            return
        process.held_down = True
        process.stop()
        ended, left_s = process.ended, STOP_S_MAX
        try:
            while left_s > 0 and not ended.is_set():
                await asyncio.sleep(LOOK_S)
                left_s -= 0 if process.paused else LOOK_S
            if not ended.is_set():
                self.world.violation(f"15: {process.host} does not stop within {STOP_S_MAX:.0f} s of being told to")
            await self._for(0.1, 3.0)
        finally:
            process.held_down = False

    async def _pause_storage(self) -> None:
        await self._pause(StorageProcess)

    async def _pause(self, kind: type[Process]) -> None:
        process = self._some(kind)
        if process is None:
            return
        life = process.life
        process.pause()
        try:
            await self._for(0.2, 14.0)
        finally:
            if process.life is life:
                process.resume()

    async def _clock_jump(self) -> None:
        process = self._some()
        if process is not None:
            jumps_ms = STORAGE_JUMPS_MS if isinstance(process, StorageProcess) else JUMPS_MS
            process.clock.off_ms += self.random.choice((-1, 1)) * self.random.choice(jumps_ms)
            self.world.log_event(f"{process.host}: the wall clock is off by {process.clock.off_ms} ms")

    # --- links

    def _hosts(self) -> list[str]:
        return [process.host for process in self.processes]

    async def _partition(self) -> None:
        """One host and some of the others."""
        one = self.random.choice(self._hosts())
        others = [host for host in [*self._hosts(), *self.clients] if host != one and self.random.random() < 0.7]
        await self._block([pair for other in others for pair in ((one, other), (other, one))], 1.0, 12.0)

    async def _one_way(self) -> None:
        one = self.random.choice(self._hosts())
        others = [host for host in [*self._hosts(), *self.clients] if host != one and self.random.random() < 0.5]
        inwards = self.random.random() < 0.5
        await self._block([(other, one) if inwards else (one, other) for other in others], 1.0, 12.0)

    async def _cut_from_store(self) -> None:
        one = self.random.choice(self._hosts())
        await self._block([(one, STORE_HOST), (STORE_HOST, one)], 1.0, 16.0)

    async def _half_cut_from_store(self) -> None:
        one = self.random.choice(self._hosts())
        await self._block([self.random.choice(((one, STORE_HOST), (STORE_HOST, one)))], 1.0, 8.0)

    async def _deposed_unawares(self, kind: type[Process], role: str) -> None:
        """A coordinator loses its lease, and neither it nor a gateway hears of what follows."""
        deposed, gateway = self._some(kind), self._some(GatewayProcess)
        if deposed is None or gateway is None:
            return
        member = self.world.keyspace.get(keys.member(role, deposed.node_id))
        if member is not None:
            self.world.keyspace.revoke(member.lease)
        hosts = (deposed.host, gateway.host)
        await self._block([pair for host in hosts for pair in ((host, STORE_HOST), (STORE_HOST, host))], 2.0, 10.0)

    async def _block(self, pairs: list[tuple[str, str]], least_s: float, most_s: float) -> None:
        network = self.world.network
        self.world.log_event("  blocked: " + ", ".join(f"{source}→{target}" for source, target in pairs))
        for pair in pairs:
            network.block(*pair)
        self._stores_look()
        try:
            await self._for(least_s, most_s)
        finally:
            for pair in pairs:
                network.unblock(*pair)
            self._stores_look()
            self.world.log_event("  unblocked: " + ", ".join(f"{source}→{target}" for source, target in pairs))

    def _stores_look(self) -> None:
        for process in self.processes:
            if process.store is not None:
                process.store.link_changed()

    async def _slow_link(self) -> None:
        hosts = [*self._hosts(), *self.clients]
        one, other = self.random.sample(hosts, 2)
        delay = self.random.choice((0.02, 0.2, 1.0))
        self.world.network.slow(one, other, delay)
        try:
            await self._for(1.0, 8.0)
        finally:
            self.world.network.slow(one, other, 0.0)

    async def _reset(self) -> None:
        one = self.random.choice(self._hosts())
        for other in [*self._hosts(), *self.clients]:
            if other != one and self.random.random() < 0.6:
                self.world.network.reset(one, other)

    # --- disks

    async def _slow_disk(self) -> None:
        process = self.random.choice(self.storage)
        process.slowness.factor = self.random.choice((10.0, 100.0, 1000.0))
        try:
            await self._for(1.0, 8.0)
        finally:
            process.slowness.factor = 1.0

    async def _failed_fsync(self) -> None:
        """The node retires the directory; an operator repairs the host later."""
        process = self._some(StorageProcess)
        if process is not None:
            process.disk.faults.fail("fdatasync", errno.EIO, after=self.random.randrange(4))

    async def operate(self) -> None:
        """The operator who repairs hosts whose disk has failed, until cancelled."""
        failed_at: dict[str, float] = {}
        while True:
            await asyncio.sleep(1.0)
            for process in self.storage:
                if not process.disk.exists(RETIRED_MARK):
                    failed_at.pop(process.host, None)
                elif self.world.seconds - failed_at.setdefault(process.host, self.world.seconds) >= OPERATOR_S:
                    self._operate(process)

    def _operate(self, process: Process) -> None:
        if not process.held_down and process.disk.exists(RETIRED_MARK):
            process.power_cut()
            self.repair(process)
            process.start()

    async def _full_disk(self) -> None:
        process = self._some(StorageProcess)
        if process is None:
            return
        disk = process.disk
        try:
            async with asyncio.timeout(self._share * self.random.uniform(0.5, 5.0)):
                while True:
                    disk.faults.fail("pwritev", errno.ENOSPC, half=self.random.random() < 0.3)
                    await asyncio.sleep(0.01)
        except TimeoutError:
            pass
        finally:
            disk.faults.heal()

    # --- the store

    async def _store_outage(self) -> None:
        self.world.links.down = True
        self._stores_look()
        try:
            await self._for(0.5, 8.0)
        finally:
            self.world.links.down = False
            self._stores_look()

    async def _store_unknown(self) -> None:
        self.world.links.unknown_share = self.random.choice((0.2, 0.6))
        try:
            await self._for(1.0, 6.0)
        finally:
            self.world.links.unknown_share = 0.0

    async def _store_late(self) -> None:
        """Writes to the store land late, after the fault has ended, too."""
        self.world.links.late_share = self.random.choice((0.2, 0.6))
        try:
            await self._for(1.0, 6.0)
        finally:
            self.world.links.late_share = 0.0

    async def _lease_lost(self) -> None:
        leases = list(self.world.keyspace.leases)
        if leases:
            self.world.keyspace.revoke(self.random.choice(leases))

    async def _watches_cancelled(self) -> None:
        for process in self.processes:
            if process.store is not None and self.random.random() < 0.5:
                process.store.cancel_watches()

    async def _compaction(self) -> None:
        self.world.keyspace.compact(self.world.keyspace.revision)
