"""One simulated process: built as its service's `__main__` builds it, killed, paused, stopped and started again.

A storage node and a gateway may share one, as in `services.node`: what happens to either then happens to both.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context
from functools import partial
from itertools import pairwise
from random import Random
from typing import Any

from libs.commitlog.cleaner.cleaning import clean, clean_with
from libs.commitlog.cleaner.job import CleanJob, CleanResult
from libs.commitlog.cleaner.pace import JobTime
from libs.commitlog.files.durable_files import make_directory
from libs.commitlog.files.open_files import OpenFiles
from libs.runtime.identity import next_incarnation
from libs.runtime.lifecycle import Lifecycle, supervise
from libs.runtime.metadata_marks import MetadataMarks
from libs.runtime.process import Environment as ProcessEnvironment
from libs.runtime.process import Identity
from libs.telemetry.metrics import Metrics
from services.controller import process as controller_process
from services.controller.config import ControllerConfig
from services.controller.controller import Controller
from services.gateway.config import GatewayConfig
from services.gateway.service import Gateway
from services.storage.config import StorageConfig
from services.storage.environment import Environment
from services.storage.service import StorageNode
from tests.simulation.cluster.environment import HostClock, SimulatedChildren, SimulatedOffload, Slowness
from tests.simulation.cluster.loop import LIFE, Crash, Life
from tests.simulation.cluster.network import SimulatedTransport
from tests.simulation.cluster.store import SimulatedStore
from tests.simulation.cluster.turn_invariants import TurnInvariants, broken_in_gateway, broken_in_storage
from tests.simulation.cluster.world import World
from tests.simulation.disk import SimulatedDisk
from tests.support.shortcut_halves import has_shortcuts

STORE_HOST = "etcd"
RPC_PORT = 7000
KAFKA_PORT = 9000
VERSION = "simulated"
EXECUTION_S = 0.3
"""The time that the program takes to be executed again."""
OPEN_FILE_IDLE_S = 120.0
"""So long that a gateway still has files which a node passed before its restart, if it does not drop them for that."""
DESCRIPTORS_MAX = 320
"""The limit of open files of each process. A gateway gives its clients about half of them."""
FRAME_BYTES_MAX, QUEUED_REQUEST_BYTES_MAX = 256 << 10, 2 << 20
SENDFILE_BYTES_MIN = 4_000
"""Batches are small here: some of what a fetch brings is copied, and some leaves by sendfile."""


class Process:
    """A host with a disk, on which one process runs at a time. `what`: what the running one is, for checks that look inside."""

    role = ""

    def __init__(self, world: World, node_id: int) -> None:
        self.world = world
        self.node_id = node_id
        self.host = f"{self.role}-{node_id}"
        self.random: Random = world.stream(self.host)
        self.clock = HostClock(world.loop, self.random)
        self.slowness = Slowness(world.stream(f"{self.host} disk"))
        self.kernel: list[Process] = [self]
        """All hosts that are containers on the same kernel."""
        self.together: list[Process] = [self]
        """All services of the process, in the order of their start. Each has a host, with a disk and addresses of its own."""
        self.disk = self._powered(SimulatedDisk(world.sometimes))
        self.life: Life | None = None
        self.store: SimulatedStore | None = None
        self.lifecycle: Lifecycle | None = None
        self.what: Any = None
        self.starts = self.boots = self.anew = 0
        self._started_at: list[float] = []
        self.ended = asyncio.Event()
        self.held_down = False  # by a fault: nobody starts it again
        self.ends: list[str] = []

    def _powered(self, disk: SimulatedDisk) -> SimulatedDisk:
        disk.random = self.random
        disk.on_read = self._read_by_somebody
        return disk

    def _read_by_somebody(self, path: Callable[[], str]) -> None:
        """17: a read that may wait for the disk holds up all that the process serves, unless a thread does it."""
        if self.slowness.threads_now or LIFE.get() is not self.life:
            return
        if self.what is not None and self.what.ready()[0]:
            self.world.violation(f"17: {self.host} reads {path()} on its event loop")

    @property
    def running(self) -> bool:
        return self.life is not None and not self.life.dead

    @property
    def paused(self) -> bool:
        return self.life is not None and self.life.paused

    @property
    def longest_life_s(self) -> float:
        """At most so long did one process run here, the time until the next start included."""
        return max((end - start for start, end in pairwise([*self._started_at, self.world.seconds])), default=0.0)

    @property
    def startable(self) -> bool:
        """Whether it ended by itself, or with a kernel that runs again."""
        dark = any(other.host in self.world.network.down for other in self.kernel if other not in self.together)
        return not self.running and not any(each.held_down for each in self.together) and not dark

    def start(self) -> None:
        """Whoever starts a process on a host without power has switched the host on."""
        assert not self.running
        life = Life(f"{'+'.join(each.host for each in self.together)}#{self.starts + 1}")
        for each in self.together:
            each._begins(life)
        context = Context()
        context.run(LIFE.set, life)
        self.world.loop.create_task(self._run(life), context=context)

    def _begins(self, life: Life) -> None:
        if self.host in self.world.network.down:
            self.world.network.power_on(self.host)
        self.starts += 1
        self._started_at.append(self.world.seconds)
        self.clock.ahead_ms = 0
        self.ended = asyncio.Event()
        self.life = life
        self.world.log_event(f"{self.host} starts")

    async def _run(self, life: Life) -> None:
        lifecycle = Lifecycle()
        for each in self.together:
            each.lifecycle = lifecycle
        code = await supervise(self.serve if len(self.together) == 1 else self._serve_together, lifecycle)
        if lifecycle.starts_anew:
            for each in self.together:
                self.world.log_event(f"{each.host} starts anew")
                each.anew += 1
            self._gone(life)
            self.world.loop.call_later(EXECUTION_S, self._start_anew, context=Context())
            return
        reason = f"exit {code}" + (f": {lifecycle.failure!r}" if lifecycle.failure is not None else "")
        for each in self.together:
            self.world.log_event(f"{each.host} ended by itself, {reason}")
            each.ends.append(reason)
        self._gone(life)

    def _start_anew(self) -> None:
        if self.startable:
            self.start()

    def _gone(self, life: Life) -> None:
        self.world.loop.end(life)
        self.world.network.kill(life)
        for each in self.together:
            if each.store is not None:
                each.store.gone()
            each.disk.killed()
            each.what = None
            each.ended.set()

    async def serve(self, lifecycle: Lifecycle) -> None:
        start = self.compose(lifecycle)
        await start()

    async def _serve_together(self, lifecycle: Lifecycle) -> None:
        """As `services.node.node.serve` does: what is composed last stops first."""
        starts = [each.compose(lifecycle) for each in self.together]
        await asyncio.gather(*(start() for start in starts))

    def compose(self, lifecycle: Lifecycle) -> Callable[[], Awaitable[None]]:
        """Makes the service, as part of the process that ends with `lifecycle`. Returns what starts it."""
        raise NotImplementedError

    def check_turns(self, broken: Callable[[], str]) -> None:
        """Checks what this service must hold, after each turn of the process. See `TurnInvariants`."""
        assert self.life is not None
        check, before = TurnInvariants(self.world, self.life, broken).check, self.life.after_turn

        def check_both() -> None:
            if before is not None:
                before()
            check()

        self.life.after_turn = check if before is None else check_both

    # --- what happens to it

    def stop(self) -> None:
        """SIGTERM."""
        if self.running and self.lifecycle is not None:
            self.world.log_event(f"{self.host} is told to stop")
            self.lifecycle.stop()

    def kill(self) -> None:
        """SIGKILL: the page cache lives."""
        if self.running:
            assert self.life is not None
            for each in self.together:
                self.world.log_event(f"{each.host} is killed")
                left = each.disk.as_left_by_a_kill()
                each.disk.discard(Crash())
                each.disk = each._powered(left)
            self._gone(self.life)

    def power_cut(self) -> None:
        """The machine goes dark: what was not synced is kept, lost or torn, and nobody hears a word."""
        for process in self.kernel:
            process.go_dark()

    def go_dark(self) -> None:
        """Its part of a power cut."""
        self.world.log_event(f"{self.host} loses its power")
        self.boots += 1
        for tell in self.world.before_power_cut:
            tell(self.host)
        left = self.disk.crashed(self.random)
        self.disk.discard(Crash())
        self.disk = self._powered(left)
        if self.life is not None and not self.ended.is_set():
            self.world.loop.end(self.life)
            if self.store is not None:
                self.store.gone()
            self.what = None
            self.ended.set()
        self.world.network.power_cut(self.host)

    def power_cut_at(self, operations: int) -> None:
        """Cuts the power in the middle of a turn, after so many more changes of the disk."""
        left = [operations]

        def before(_operation: str) -> None:
            left[0] -= 1
            if left[0] < 0 and self.running:
                self.disk.before = None
                self.power_cut()
                raise Crash

        self.disk.before = before

    def snapshot(self) -> SimulatedDisk:
        """The volume as it is now."""
        return self.disk.as_left_by_a_kill()

    def restore(self, snapshot: SimulatedDisk) -> None:
        """Puts an older snapshot of the volume in its place, while no process runs on it."""
        assert not self.running
        self.world.log_event(f"the volume of {self.host} goes back")
        self.disk.discard(Crash())
        self.disk = self._powered(snapshot)

    def pause(self) -> None:
        if self.running and self.life is not None:
            self.world.log_event(f"{self.host} is paused")
            self.life.paused = True

    def resume(self) -> None:
        if self.life is not None and self.life.paused:
            self.world.log_event(f"{self.host} goes on")
            self.world.loop.resume(self.life)

    # --- what each of them takes from the world

    def open_store(self) -> SimulatedStore:
        network = self.world.network
        self.store = SimulatedStore(
            self.world.keyspace,
            self.world.links,
            host=self.host,
            reaches=lambda: not network.blocked(self.host, STORE_HOST),
            hears=lambda: not network.blocked(STORE_HOST, self.host),
        )
        return self.store

    def transport(self) -> SimulatedTransport:
        return SimulatedTransport(self.world.network, self.host, self.disk)

    def incarnation(self) -> int:
        return next_incarnation(self.disk, "/data", self.clock.wall_ms())

    def identity(self) -> Identity:
        return Identity(self.role, self.node_id, self.incarnation(), self.world.network.kernel_of(self.host), VERSION)

    def environment(self, new_random: Callable[[], Random]) -> ProcessEnvironment:
        """The environment. The seeds' histories need this order: the store, the transport, `new_random`, the incarnation."""
        store, transport, random = self.open_store(), self.transport(), new_random()
        return ProcessEnvironment(self.identity(), self.clock, store, transport, random, marks=MetadataMarks(self.disk, "/data"))

    def own_random(self) -> Random:
        return Random(self.random.getrandbits(64))


class StorageProcess(Process):
    role = "storage"

    def compose(self, lifecycle: Lifecycle) -> Callable[[], Awaitable[None]]:
        config = StorageConfig(
            node_id=self.node_id,
            data_dir="/data",
            etcd=(),
            rpc_tcp=f"{self.host}:{RPC_PORT}",
            rpc_unix=f"/run/{self.host}.sock" if len(self.kernel) > 1 else "",
            rack=f"rack-{self.node_id}",
            broker_configs=self.world.broker_configs,
            high_watermark_checkpoint_s=2.0,
            recovery_checkpoint_s=15.0,
            volume_stamp_s=3.0,
        )
        disk = self.disk
        make_directory(disk, "/data")
        disk.lock("/data/.lock")
        identity = self.identity()
        store = self.open_store()
        lifecycle.on_stop(store.close)
        environment = Environment(
            identity=identity,
            clock=self.clock,
            fs=disk,
            store=store,
            transport=self.transport(),
            metrics=Metrics("storage"),
            offload=lambda name, threads: SimulatedOffload(self.slowness, threads),
            children=lambda name, count, nice: SimulatedChildren(self.slowness, {clean: self._clean}),
            new_directory_id=lambda: self.random.randbytes(16),
            die=lifecycle.stop,
            open_files=OpenFiles(64),
            page_cache_of=lambda path: f"{self.host}, boot {self.boots}",
        )
        node = self.what = StorageNode(config, environment)
        self.check_turns(partial(broken_in_storage, node))
        lifecycle.on_stop(node.stop)
        return node.start

    def _clean(self, job: CleanJob, report: Callable[[object], None]) -> CleanResult:
        for tell in self.world.before_cleaning:
            tell(self.host, job)
        return clean_with(self.disk, job, report, JobTime(lambda: 0.0, lambda _: None))


class ControllerProcess(Process):
    role = "controller"

    async def serve(self, lifecycle: Lifecycle) -> None:
        config = ControllerConfig(node_id=self.node_id, etcd=(), data_dir="/data", rpc_tcp=f"{self.host}:{RPC_PORT}")

        async def built(controller: Controller) -> None:
            self.what = controller

        await controller_process.serve(config, self.environment(self.own_random), lifecycle, built)


class GatewayProcess(Process):
    role = "gateway"

    def __init__(self, world: World, node_id: int) -> None:
        super().__init__(world, node_id)
        self._passing = world.stream(f"{self.host} passed files")

    def transport(self) -> SimulatedTransport:
        return SimulatedTransport(self.world.network, self.host, self.disk, self._passing)

    def compose(self, lifecycle: Lifecycle) -> Callable[[], Awaitable[None]]:
        config = GatewayConfig(
            node_id=self.node_id,
            etcd=(),
            port_base=KAFKA_PORT,
            data_dir="/data",
            listen_host=self.host,
            advertised_host=self.host,
            rpc_tcp=f"{self.host}:{RPC_PORT}",
            rack=f"rack-{self.node_id}",
            sendfile_bytes_min=SENDFILE_BYTES_MIN,
            open_file_idle_s=OPEN_FILE_IDLE_S,
            frame_bytes_max=FRAME_BYTES_MAX,
            queued_request_bytes_max=QUEUED_REQUEST_BYTES_MAX,
            shortcuts=has_shortcuts(self.world.seed),
        )
        world = self.environment(lambda: Random(0))
        lifecycle.on_stop(world.store.close)
        gateway = self.what = Gateway(config, world, Metrics("gateway"), die=lifecycle.stop, descriptors_max=DESCRIPTORS_MAX)
        assert self.life is not None
        self.check_turns(partial(broken_in_gateway, self.world, self.life))
        lifecycle.on_stop(gateway.stop)
        return gateway.start


def share_kernel(*processes: Process) -> None:
    """Puts hosts on one kernel: files are passed between them, and they lose their power together."""
    for process in processes:
        process.kernel = list(processes)
        process.world.network.kernels[process.host] = processes[0].host


def share_process(node: StorageProcess, gateway: GatewayProcess) -> None:
    """Has one process run both, as in the role `node`."""
    share_kernel(node, gateway)
    for each in (node, gateway):
        each.together = [node, gateway]
