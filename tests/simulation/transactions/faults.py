"""The faults of a run. Each seed draws a part of the kinds."""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from services.storage.partition.partition import Partition
from tests.simulation.transactions.network import Process
from tests.simulation.transactions.record_log import RecordLog
from tests.simulation.transactions.world import World

if TYPE_CHECKING:
    from tests.simulation.transactions.run import TransactionRun

EVERY_S = 0.25


class Faults:
    def __init__(self, run: "TransactionRun", world: World) -> None:
        self.run, self.world = run, world
        self.random = world.random
        self.counts: Counter[str] = Counter()
        self.ended = False
        kinds: list[Callable[[], None]] = [
            *(self.kill_coordinator, self.pause_coordinator, self.move_shard, self.depose_unawares),
            *(
                self.move_data_leader,
                self.move_shard_leader,
                self.kill_node,
                self.pause_node,
                self.slow_disk,
                self.too_few_replicas,
            ),
            *(
                self.failed_write,
                self.lossy_lines,
                self.late_lines,
                self.lost_connections,
                self.stalled_connections,
                self.stale_images,
            ),
            *(self.crash_producer, self.pause_producer, self.another_instance),
        ]
        self._loss = world.network.loss = self.random.choice((0.0, 0.03, 0.1))
        """At all times, until everything heals."""
        self.kinds = [kind for kind in kinds if self.random.random() < 0.5] or [self.kill_coordinator]

    def begin(self) -> None:
        self.world.later(EVERY_S * (0.3 + 1.4 * self.random.random()), self._next)

    def end(self) -> None:
        world = self.world
        self.ended = True
        world.network.loss = world.network.late_s = world.image_lateness_s = 0.0
        world.disk_slowness.clear()
        for process in world.processes:
            self._resume(process)
        for node in world.nodes.values():
            for partition in node.partitions.by_key.values():
                self._enough_replicas(partition)
                log = partition.log
                assert isinstance(log, RecordLog)
                log.failing_writes = 0

    def _next(self) -> None:
        if self.ended:
            return
        kind = self.random.choice(self.kinds)
        name = kind.__name__.replace("_", " ")
        self.counts[name] += 1
        self.world.simulator.log_event("fault: %s", name)
        kind()
        self.begin()

    def _seconds(self) -> float:
        return self.random.choice((0.1, 1.0)) * (0.5 + self.random.random())

    def _for_a_while(self, thing: object, name: str, value: float, usual: float = 0.0) -> None:
        setattr(thing, name, value)
        self.world.later(self._seconds(), self._back, thing, name, usual)

    def _back(self, thing: object, name: str, usual: float) -> None:
        if not self.ended:
            setattr(thing, name, usual)

    def _pause(self, process: Process, seconds: float) -> None:
        if process.alive and not process.life.paused:
            self.world.simulator.log_event("%s stands still", process.name)
            process.life.paused = True
            self.world.later(seconds, self._resume, process)

    def _resume(self, process: Process) -> None:
        if process.alive and process.life.paused:
            self.world.simulator.log_event("%s goes on", process.name)
            self.world.simulator.loop.resume(process.life)

    # -- coordinators -----------------------------------------------------------------------------------------------------

    def kill_coordinator(self) -> None:
        process = self.random.choice(list(self.world.coordinators.values()))
        process.kill()
        self.world.later(self.random.choice((0.05, 0.5)), self.world.start_coordinator, process.node_id)
        self.world.later(0.4 * self.random.random(), self._reassign, str(process.owner))

    def _reassign(self, former: str) -> None:
        for shard, (owner, _) in self.world.owners.items():
            if owner == former:
                self.world.assign(shard)
                if self.world.owners[shard][0] == former:  # nobody else lives
                    self.world.later(0.2, self._reassign, former)

    def pause_coordinator(self) -> None:
        """The shards move meanwhile, or do not."""
        process = self.random.choice(list(self.world.coordinators.values()))
        self._pause(process, self._seconds())
        if self.random.random() < 0.6:
            self.world.later(0.3 * self.random.random(), self.move_shard)

    def move_shard(self) -> None:
        self.world.assign(self.random.choice(list(self.world.owners)))

    def depose_unawares(self) -> None:
        """An owner hears late that another one has its shard."""
        process = self.random.choice(list(self.world.coordinators.values()))
        process.deaf_until = self.world.simulator.loop.time() + self._seconds()
        self.move_shard()

    # -- storage ----------------------------------------------------------------------------------------------------------

    def move_data_leader(self) -> None:
        history = self.random.choice(self.world.data)
        if self.random.random() < 0.4:
            self.world.nodes[history.leader].deaf_until = self.world.simulator.loop.time() + self._seconds()
        self.world.elect(history)
        if self.random.random() < 0.3:
            self.world.later(0.1 * self.random.random(), self._move_again)

    def _move_again(self) -> None:
        if not self.ended:
            self.move_data_leader()

    def move_shard_leader(self) -> None:
        histories = [history for history in self.world.histories.values() if history not in self.world.data]
        self.world.elect(self.random.choice(histories))

    def kill_node(self) -> None:
        node = self.random.choice(list(self.world.nodes.values()))
        node.kill()
        self.world.later(0.3 * self.random.random(), self.run.elect_anew, node.node_id)
        self.world.later(self.random.choice((0.05, 0.6)), self.run.restart_node, node.node_id)

    def pause_node(self) -> None:
        """Its partitions move meanwhile, or do not."""
        node = self.random.choice(list(self.world.nodes.values()))
        self._pause(node, self._seconds())
        if self.random.random() < 0.6:
            self.world.later(0.3 * self.random.random(), self.run.elect_anew, node.node_id)

    def slow_disk(self) -> None:
        key = self.random.choice(list(self.world.histories))
        self.world.disk_slowness[key] = self.random.choice((20.0, 300.0))
        self.world.later(self._seconds(), self.world.disk_slowness.pop, key, None)

    def too_few_replicas(self) -> None:
        node = self.random.choice(list(self.world.nodes.values()))
        for partition in node.partitions.by_key.values():
            partition.replica.configure(synced=True, min_in_sync=2)
            self.world.later(self._seconds(), self._enough_replicas, partition)

    def _enough_replicas(self, partition: Partition) -> None:
        partition.replica.configure(synced=True, min_in_sync=1)

    def failed_write(self) -> None:
        node = self.random.choice(list(self.world.nodes.values()))
        for partition in node.partitions.by_key.values():
            log = partition.log
            assert isinstance(log, RecordLog)
            log.failing_writes = self.random.choice((1, 3))

    # -- lines ------------------------------------------------------------------------------------------------------------

    def lossy_lines(self) -> None:
        self._for_a_while(self.world.network, "loss", self.random.choice((0.1, 0.4)), self._loss)

    def late_lines(self) -> None:
        self._for_a_while(self.world.network, "late_s", self.random.choice((0.1, 1.0, 4.0)))

    def lost_connections(self) -> None:
        for process in self.world.processes:
            if self.random.random() < 0.5:
                for connection in process.connections:
                    connection.reset()

    def stalled_connections(self) -> None:
        """What one process sends comes late, perhaps when it has sent it again over the next connection. Or answers to it do."""
        processes = self.random.choice((self.world.coordinators, self.world.nodes, dict(enumerate(self.world.clients))))
        process = self.random.choice(list(processes.values()))
        seconds = self.random.choice((0.2, 1.0, 2.5)) * (0.5 + self.random.random())
        is_lost, answers = self.random.random() < 0.6, self.random.random() < 0.3
        for connection in process.connections:
            connection.stall(seconds, answers=answers)
            if is_lost:
                process.soon(0.3 * self.random.random(), connection.reset)

    def stale_images(self) -> None:
        self._for_a_while(self.world, "image_lateness_s", self.random.choice((0.1, 1.0)))

    # -- producers --------------------------------------------------------------------------------------------------------

    def crash_producer(self) -> None:
        self.random.choice(self.run.applications).crash()

    def pause_producer(self) -> None:
        """Another instance takes the transactional id meanwhile, or none does."""
        application = self.random.choice(self.run.applications)
        self._pause(application.newest, self.random.choice((0.2, 2.0, 4.0)))
        if self.random.random() < 0.6:
            self.world.later(0.3 * self.random.random(), application.start)

    def another_instance(self) -> None:
        self.random.choice(self.run.applications).start()
