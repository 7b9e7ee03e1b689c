"""What goes wrong, drawn: each seed knows a part of the kinds."""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.simulation.groups.classic_clients import Classic
from tests.simulation.groups.consumer_clients import Consumer
from tests.simulation.groups.reading import Client

if TYPE_CHECKING:
    from tests.simulation.groups.run import GroupRun


class Faults:
    def __init__(self, run: "GroupRun") -> None:
        self.run = run
        self.bench = run.bench
        self.random = run.random
        self.counts: Counter[str] = Counter()
        self.ended = False
        run.lines.on_kill = self._replace_owner
        kinds: list[Callable[[], None]] = [
            *(self.kill_owner, self.move_shard, self.move_leader, self.slow_commits, self.too_few_replicas, self.lossy_log),
            *(self.lossy_lines, self.late_lines, self.repeated_requests, self.crash_client, self.stop_client),
            *(self.lose_connection, self.pause_client, self.add_partitions, self.deadly_answers, self.stale_commits),
        ]
        if run.kind == "mixed":
            kinds += [self.switch_protocol] * 3
        self.kinds = [kind for kind in kinds if self.random.random() < 0.5] or [self.kill_owner]

    def begin(self, every_ms: float) -> None:
        self.every_ms = every_ms * self.random.choice((0.5, 1, 2))
        self.bench.later(self.random.random() * self.every_ms, self._next)

    def end(self) -> None:
        run = self.run
        self.ended = True
        run.wire.loss = run.wire.late_ms = run.lines.loss = run.lines.late_ms = run.lines.twice = run.lines.kills = 0.0
        run.partition.commit_ms, run.partition.too_few = 3.0, False

    def _next(self) -> None:
        if self.ended:
            return
        kind = self.random.choice(self.kinds)
        name = kind.__name__.replace("_", " ")
        self.counts[name] += 1
        self.bench.tell(f"fault: {name}")
        kind()
        self.bench.later(self.every_ms * (0.3 + 1.4 * self.random.random()), self._next)

    def _for_a_while(self, thing: object, name: str, value: object, back: object) -> None:
        setattr(thing, name, value)
        self.bench.later(self.random.choice((300, 2500)) * (0.5 + self.random.random()), self._back, thing, name, back)

    def _back(self, thing: object, name: str, back: object) -> None:
        setattr(thing, name, back)

    # -- owners and the log -----------------------------------------------------------------------------------------------

    def kill_owner(self) -> None:
        self.run.owner.kill()
        self._replace_owner()

    def _replace_owner(self) -> None:
        self.bench.later(self.random.choice((20, 300, 1200)), self._name_another)

    def deadly_answers(self) -> None:
        self._for_a_while(self.run.lines, "kills", 0.3, 0.0)

    def _name_another(self) -> None:
        if not self.ended and self.run.owner.dead:
            self.run.new_owner()

    def move_shard(self) -> None:
        former = self.run.owner
        self.run.new_owner()
        self.bench.later(self.random.choice((5, 200, 4000)), former.dismiss)

    def move_leader(self) -> None:
        self.run.partition.move_leader()
        for owner in self.run.owners[-3:]:
            self.bench.later(self.random.choice((1, 20, 400)), owner.leader_moved, self.run.partition.leader_epoch)
        if self.random.random() < 0.3:
            self.bench.later(self.random.random() * 100, self._move_again)

    def _move_again(self) -> None:
        if not self.ended:
            self.move_leader()

    def slow_commits(self) -> None:
        self._for_a_while(self.run.partition, "commit_ms", self.random.choice((50.0, 500.0, 5000.0)), 3.0)

    def too_few_replicas(self) -> None:
        self._for_a_while(self.run.partition, "too_few", True, False)

    def lossy_log(self) -> None:
        self._for_a_while(self.run.wire, "loss", self.random.choice((0.1, 0.5)), 0.0)
        self._for_a_while(self.run.wire, "late_ms", self.random.choice((0.0, 200.0, 8000.0)), 0.0)

    # -- clients ----------------------------------------------------------------------------------------------------------

    def lossy_lines(self) -> None:
        self._for_a_while(self.run.lines, "loss", self.random.choice((0.05, 0.4)), 0.0)

    def late_lines(self) -> None:
        self._for_a_while(self.run.lines, "late_ms", self.random.choice((30.0, 500.0, 4000.0)), 0.0)

    def repeated_requests(self) -> None:
        self._for_a_while(self.run.lines, "twice", 0.4, 0.0)

    def crash_client(self) -> None:
        client = self.random.choice(self.run.clients)
        client.crash()
        self.bench.later(self.random.choice((50, 2000, 12_000)), self._start, client)

    def stop_client(self) -> None:
        client = self.random.choice(self.run.clients)
        client.stop()
        self.bench.later(self.random.choice((50, 2000, 12_000)), self._start, client)

    def _start(self, client: Client) -> None:
        if not self.ended:
            client.start()

    def lose_connection(self) -> None:
        for client in self.random.sample(self.run.clients, self.random.choice((1, 1, len(self.run.clients)))):
            client.lose_connection()

    def pause_client(self) -> None:
        self.random.choice(self.run.clients).paused_ms = self.bench.now_ms + self.random.choice((1000, 6000, 12_000, 20_000))

    def stale_commits(self) -> None:
        """Whoever was in the group, and does not know that it is not, or asks as what it was."""
        client = self.random.choice(self.run.clients)
        if isinstance(client, Classic | Consumer) and client.former:
            count = self.run.topics.by_name["t"].partitions
            for member_id, generation in client.former[-4:]:
                client.commit_these([("t", self.random.randrange(count))], member_id, generation)

    def switch_protocol(self) -> None:
        """Started again with the other protocol, as in a rolling upgrade."""
        run = self.run
        at = self.random.randrange(len(run.clients))
        client = run.clients[at]
        if not isinstance(client, Classic | Consumer) or not client.runs:
            return
        client.stop()
        client.retired = True
        successor: Classic | Consumer
        if isinstance(client, Consumer):
            successor = Classic(run, client.number, client.instance, cooperative=run.cooperative)
        else:
            successor = Consumer(run, client.number, client.instance)
        successor.life = client.life
        successor.line.owner = client.line.owner
        run.clients[at] = successor
        successor.start()

    def add_partitions(self) -> None:
        topics = {name: view.partitions for name, view in self.run.topics.by_name.items()}
        if topics["t"] < 12:
            self.run.set_topics(t=topics["t"] + 1, u=topics["u"])
