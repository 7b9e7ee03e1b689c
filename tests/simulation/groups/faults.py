"""The faults of a run. Each seed draws a part of the kinds."""

from collections import Counter
from collections.abc import Callable

from tests.simulation.groups.classic_clients import Classic
from tests.simulation.groups.consumer_clients import Consumer
from tests.simulation.groups.group_world import GroupWorld
from tests.simulation.groups.reading import Client


class Faults:
    def __init__(self, world: GroupWorld) -> None:
        self.world = world
        self.simulator = world.simulator
        self.random = world.random
        self.counts: Counter[str] = Counter()
        self.ended = False
        world.network.on_kill = self._replace_owner
        kinds: list[Callable[[], None]] = [
            *(self.kill_owner, self.move_shard, self.move_leader, self.slow_commits, self.too_few_replicas, self.lossy_log),
            *(self.lossy_lines, self.late_lines, self.repeated_requests, self.crash_client, self.stop_client),
            *(self.lose_connection, self.pause_client, self.add_partitions, self.deadly_answers, self.stale_commits),
        ]
        if world.kind == "mixed":
            kinds += [self.switch_protocol] * 3
        self.kinds = [kind for kind in kinds if self.random.random() < 0.5] or [self.kill_owner]

    def begin(self, every_ms: float) -> None:
        self.every_ms = every_ms * self.random.choice((0.5, 1, 2))
        self.simulator.later(self.random.random() * self.every_ms, self._next)

    def end(self) -> None:
        world = self.world
        self.ended = True
        world.storage_link.loss = world.storage_link.late_ms = world.network.loss = world.network.late_ms = (
            world.network.twice
        ) = world.network.kills = 0.0
        world.partition.commit_ms, world.partition.too_few = 3.0, False

    def _next(self) -> None:
        if self.ended:
            return
        kind = self.random.choice(self.kinds)
        name = kind.__name__.replace("_", " ")
        self.counts[name] += 1
        self.simulator.log_event(f"fault: {name}")
        kind()
        self.simulator.later(self.every_ms * (0.3 + 1.4 * self.random.random()), self._next)

    def _for_a_while(self, thing: object, name: str, value: object, back: object) -> None:
        setattr(thing, name, value)
        self.simulator.later(self.random.choice((300, 2500)) * (0.5 + self.random.random()), self._back, thing, name, back)

    def _back(self, thing: object, name: str, back: object) -> None:
        setattr(thing, name, back)

    # -- owners and the log -----------------------------------------------------------------------------------------------

    def kill_owner(self) -> None:
        self.world.owner.kill()
        self._replace_owner()

    def _replace_owner(self) -> None:
        self.simulator.later(self.random.choice((20, 300, 1200)), self._name_another)

    def deadly_answers(self) -> None:
        self._for_a_while(self.world.network, "kills", 0.3, 0.0)

    def _name_another(self) -> None:
        if not self.ended and self.world.owner.dead:
            self.world.new_owner()

    def move_shard(self) -> None:
        former = self.world.owner
        self.world.new_owner()
        self.simulator.later(self.random.choice((5, 200, 4000)), former.unload)

    def move_leader(self) -> None:
        self.world.partition.move_leader()
        for owner in self.world.owners[-3:]:
            self.simulator.later(self.random.choice((1, 20, 400)), owner.leader_moved, self.world.partition.leader_epoch)
        if self.random.random() < 0.3:
            self.simulator.later(self.random.random() * 100, self._move_again)

    def _move_again(self) -> None:
        if not self.ended:
            self.move_leader()

    def slow_commits(self) -> None:
        self._for_a_while(self.world.partition, "commit_ms", self.random.choice((50.0, 500.0, 5000.0)), 3.0)

    def too_few_replicas(self) -> None:
        self._for_a_while(self.world.partition, "too_few", True, False)

    def lossy_log(self) -> None:
        self._for_a_while(self.world.storage_link, "loss", self.random.choice((0.1, 0.5)), 0.0)
        self._for_a_while(self.world.storage_link, "late_ms", self.random.choice((0.0, 200.0, 8000.0)), 0.0)

    # -- clients ----------------------------------------------------------------------------------------------------------

    def lossy_lines(self) -> None:
        self._for_a_while(self.world.network, "loss", self.random.choice((0.05, 0.4)), 0.0)

    def late_lines(self) -> None:
        self._for_a_while(self.world.network, "late_ms", self.random.choice((30.0, 500.0, 4000.0)), 0.0)

    def repeated_requests(self) -> None:
        self._for_a_while(self.world.network, "twice", 0.4, 0.0)

    def crash_client(self) -> None:
        client = self.random.choice(self.world.clients)
        client.crash()
        self.simulator.later(self.random.choice((50, 2000, 12_000)), self._start, client)

    def stop_client(self) -> None:
        client = self.random.choice(self.world.clients)
        client.stop()
        self.simulator.later(self.random.choice((50, 2000, 12_000)), self._start, client)

    def _start(self, client: Client) -> None:
        if not self.ended:
            client.start()

    def lose_connection(self) -> None:
        for client in self.random.sample(self.world.clients, self.random.choice((1, 1, len(self.world.clients)))):
            client.lose_connection()

    def pause_client(self) -> None:
        self.random.choice(self.world.clients).paused_ms = self.simulator.now_ms + self.random.choice(
            (1000, 6000, 12_000, 20_000)
        )

    def stale_commits(self) -> None:
        """Former members commit: they do not know that they left, or use an old identity."""
        client = self.random.choice(self.world.clients)
        if isinstance(client, Classic | Consumer) and client.former:
            count = self.world.topics.by_name["t"].partitions
            for member_id, generation in client.former[-4:]:
                client.commit_these([("t", self.random.randrange(count))], member_id, generation)

    def switch_protocol(self) -> None:
        """Started again with the other protocol, as in a rolling upgrade."""
        world = self.world
        at = self.random.randrange(len(world.clients))
        client = world.clients[at]
        if not isinstance(client, Classic | Consumer) or not client.runs:
            return
        client.stop()
        client.retired = True
        successor: Classic | Consumer
        if isinstance(client, Consumer):
            successor = Classic(world, client.number, client.instance, cooperative=world.cooperative)
        else:
            successor = Consumer(world, client.number, client.instance)
        successor.life = client.life
        successor.link.owner = client.link.owner
        world.clients[at] = successor
        successor.start()

    def add_partitions(self) -> None:
        topics = {name: view.partitions for name, view in self.world.topics.by_name.items()}
        if topics["t"] < 12:
            self.world.set_topics(t=topics["t"] + 1, u=topics["u"])
