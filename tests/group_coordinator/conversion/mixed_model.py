"""Whatever clients of both protocols, clocks, logs and owners do: no partition is owned twice, and when they are let alone all is
owned.

Groups go from one protocol to the other and back as clients come, go, die, and are started again with the other protocol. Appends
are refused, or lost with nobody knowing; owners fail, and the next knows what the log says.
"""

from random import Random

from libs.coordinator.core.states import State as ShardState
from services.group_coordinator.core.classic.states import State as ClassicState
from services.group_coordinator.core.consumer import partitions
from services.group_coordinator.core.consumer.group_decision import session_key
from services.group_coordinator.core.consumer.states import State as ConsumerState
from services.group_coordinator.core.model.settings import MigrationPolicy
from tests.group_coordinator.conversion.clients import Classic, Client, Consumer, Partition
from tests.group_coordinator.conversion.stage import Stage

CLIENTS = 5
PARTITIONS = 6
POLICIES = [*([MigrationPolicy.BIDIRECTIONAL] * 4), *MigrationPolicy]


class Run:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.stage = Stage(t=PARTITIONS)
        if self.random.random() < 0.2:
            self.stage.classic_members_max = self.random.choice([1, 2])
            self.stage.fail_over()
        self.cooperative = self.random.random() < 0.5
        self.conversions = 0
        self.was_classic = True
        self.former: int | None = None
        """Its generation or epoch. None: it is not known whether it may fall."""
        self.clients: list[Client] = []
        for number in range(CLIENTS):
            self.clients.append(self._client(number, classic=self.random.random() < 0.6))

    def _client(self, number: int, *, classic: bool) -> Client:
        instance = f"i{number}" if number >= CLIENTS - 2 else None
        if classic:
            return Classic(self.stage, number, instance, cooperative=self.cooperative)
        return Consumer(self.stage, number, instance)

    # -- what happens -----------------------------------------------------------------------------------------------------

    def step(self) -> None:
        draw = self.random
        at = draw.randrange(len(self.clients))
        what = draw.choices(
            ["step", "all", "rush", "stop", "crash", "switch", "topics", "wait", "policy", "refuse", "lose", "fail over"],
            [30, 8, 8, 1.0, 1.0, 2.0, 0.3, 8, 0.7, 0.7, 0.7, 0.5],
        )[0]
        client = self.clients[at]
        if what == "step":
            client.step()
        elif what == "all":
            for item in draw.sample(self.clients, len(self.clients)):
                item.step()
        elif what == "rush":
            for _ in range(5):
                client.step()
                self.check()
        elif what == "stop":
            client.stop()
        elif what == "crash":
            client.crash()
        elif what == "switch":
            self.switch(at)
        elif what == "topics":
            self.stage.set_topics(t=self.stage.topics.by_name["t"].partitions + 1)
        elif what == "wait":
            self.wait(draw.choice([100, 1_000, 5_000]))
        elif what == "policy":
            self.stage.change(consumer_migration_policy=draw.choice(POLICIES))
        else:
            self.trouble(what)
        self.check()

    def switch(self, at: int) -> None:
        """Started again with the other protocol, as in a rolling upgrade."""
        client = self.clients[at]
        client.stop()
        self.clients[at] = self._client(at, classic=isinstance(client, Consumer))
        if isinstance(self.clients[at], Consumer):
            self.clients[at].lives = self.random.randrange(10**9)  # type: ignore[attr-defined]

    def wait(self, ms: int) -> None:
        """All clients go on meanwhile: no live one is silent for a session."""
        for _ in range(0, ms, 1_000):
            self.stage.wait(min(ms, 1_000))
            for client in self.clients:
                client.step()
                self.check()

    def trouble(self, what: str) -> None:
        stage = self.stage
        stage.holds = True
        for client in self.random.sample(self.clients, 3):
            client.step()
        stored = self.random.random() < 0.5
        if what == "refuse" and stage.under_way is not None:
            stage.refuse(self.random.choice([19, 10]))
            if stage.shard.state is not ShardState.SERVING:
                stage.load()
        elif what == "lose" and stage.under_way is not None:
            stage.holds = False
            stage.lose_sight(stored=stored)
        elif what == "fail over":
            stage.fence(stored=stored)
        stage.holds = False
        stage.settle()
        self.former = None

    # -- what holds -------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        owners: dict[Partition, int] = {}
        for client in self.clients:
            for partition in client.owned:
                assert partition not in owners, f"{partition} is read by {owners[partition]} and {client.number}"
                owners[partition] = client.number
        machine = self.stage.machine
        in_both = set(machine.classic.groups) & set(machine.consumer.groups)
        assert not in_both, "a group of both kinds"
        group = machine.consumer.groups.get("g")
        if group is not None:
            held = {
                partition: member.member_id
                for member in group.members.values()
                for partition in [*partitions.each(member.assigned), *partitions.each(member.pending)]
            }
            assert dict(group.holders) == held, "held by nobody, or by two"
            assert sum(map(len, map(list, map(partitions.each, (m.assigned for m in group.members.values()))))) <= len(held)
            for member_id in group.members:
                assert self.stage.shard.timers.deadline(session_key("g", member_id)) is not None
        is_classic = "g" in machine.classic.groups
        generation = self.generation()
        if is_classic != self.was_classic:
            self.conversions += 1
            assert self.former is None or generation is None or generation >= self.former, "a generation comes twice"
        self.was_classic, self.former = is_classic, generation

    def generation(self) -> int | None:
        """None if there is no group, or it has no members."""
        machine = self.stage.machine
        classic, consumer = machine.classic.groups.get("g"), machine.consumer.groups.get("g")
        if classic is not None:
            return classic.facts.generation if classic.members else None
        return consumer.facts.epoch if consumer is not None and consumer.members else None

    def converge(self) -> None:
        """Nothing goes wrong any more."""
        self.stage.change(consumer_migration_policy=MigrationPolicy.BIDIRECTIONAL)
        count = self.stage.topics.by_name["t"].partitions
        everything = {("t", number) for number in range(count)}
        calm = 0
        for _ in range(400):
            self.stage.wait(500)
            for client in self.clients:
                client.step()
                self.check()
            owned = set().union(*(client.owned for client in self.clients))
            waits = any(client.busy or (isinstance(client, Classic) and not client.in_it) for client in self.clients)
            calm = calm + 1 if owned == everything and not waits and self.is_stable() else 0
            if calm > 6:
                break
        else:
            raise AssertionError(f"no end: {[(type(item).__name__, item.owned) for item in self.clients]}")

    def is_stable(self) -> bool:
        """The group with exactly all clients as its members."""
        machine = self.stage.machine
        if "g" in machine.classic.groups:
            classic = machine.classic.groups["g"]
            everybody = all(isinstance(client, Classic) for client in self.clients)
            return classic.state is ClassicState.STABLE and everybody and len(classic.members) == len(self.clients)
        group = machine.consumer.groups["g"]
        return group.state is ConsumerState.STABLE and len(group.members) == len(self.clients)

    def end(self) -> None:
        for client in self.clients:
            client.crash()
        for _ in range(8):
            self.stage.wait(400_000)
        machine = self.stage.machine
        assert not any(group.members for group in machine.classic.groups.values())
        assert not any(group.members for group in machine.consumer.groups.values())
        assert not machine.mixed.expected_requests, "somebody is waited for who is gone"
        assert not self.stage.shard.pending.parked, "somebody waits for ever"


def random_run(seed: int, steps: int = 120) -> int:
    run = Run(seed)
    for _ in range(steps):
        run.step()
    run.converge()
    run.end()
    return run.conversions
