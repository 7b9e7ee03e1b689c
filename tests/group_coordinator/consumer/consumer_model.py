"""Whatever clients, clocks, topics, logs and owners do: nobody owns what another owns, and when it is quiet again everybody has
what it is to have.

Clients do what real ones do with each answer, late or never. Some are static, some ask for a regular expression; they crash, fall
silent, and come again. Appends are held, refused, or lost with nobody knowing; owners fail, and the next knows what the log says.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import combinations, count

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from libs.coordinator.core.states import State as ShardState
from libs.wire.errors import ErrorCode
from services.group_coordinator.core.consumer.states import State
from services.group_coordinator.core.model.consumer_settings import ConsumerSettings
from tests.group_coordinator.consumer.checks import agrees, is_looked_at_again, leads_to, survives
from tests.group_coordinator.consumer.stage import Heartbeat, Stage
from tests.group_coordinator.one_shard_model import OneShardModel

SESSION_MS = 45_000
REBALANCE_MS = 60_000
"""At least a session: a client that hears nothing for so long has given up."""
TOPICS = [{"t": 4, "u": 3}, {"t": 4}, {"t": 6, "u": 3}, {"t": 4, "u": 3, "v": 2}, {"u": 1, "v": 2}, {}]
WANTS = [("t",), ("t", "u"), ("u", "v"), ()]
clients = st.integers(0, 5)

Owned = set[tuple[str, int]]


def by_topic(owned: Owned) -> dict[str, list[int]]:
    result: dict[str, list[int]] = {}
    for topic, partition in sorted(owned):
        result.setdefault(topic, []).append(partition)
    return result


@dataclass
class Client:
    number: int
    wants: tuple[str, ...] = ("t", "u")
    member_id: str = ""
    """"": it is not there."""
    epoch: int = 0
    owned: Owned = field(default_factory=set)
    assigned: Owned | None = None
    """To be made its own: the last word it had."""
    heartbeat: Heartbeat | None = None
    sent_ms: int = 0
    asked: tuple[str, ...] | None = None
    """What it said that it wants, as far as it knows."""
    said: Owned | None = None
    """What it said that it owns."""
    unsure: bool = False
    """An answer was lost or ignored: the next heartbeat is a full one, and so is its answer."""
    lease_ms: int = 0
    """Of an answer no older than the session it owns what it owns; then it has to give it up by itself."""
    due_ms: int | None = None
    """The deadline of the revocation that it was told of."""
    former: list[tuple[str, int]] = field(default_factory=list)

    @property
    def instance(self) -> str | None:
        return f"i{self.number}" if self.number in (3, 4) else None

    @property
    def regex(self) -> str | None:
        return "[tv].*" if self.number == 5 else None

    @property
    def assignor(self) -> str | None:
        return "range" if self.number == 1 else None

    def reads(self) -> set[str]:
        return {"t", "v"} if self.regex is not None else set(self.wants)

    def lose(self) -> None:
        self.owned, self.assigned, self.due_ms, self.epoch = set(), None, None, 0

    def vanish(self) -> None:
        if self.member_id:
            self.former.append((self.member_id, self.epoch))
        self.lose()
        self.member_id, self.heartbeat, self.unsure = "", None, False


class ConsumerModel(OneShardModel):
    def __init__(self) -> None:
        super().__init__()
        self.stage: Stage = Stage(**TOPICS[0])
        self.clients = [Client(number) for number in range(6)]
        self.incarnations = count()
        self.state = State.EMPTY

    @initialize(size_max=st.sampled_from([100, 3]))
    def begin(self, size_max: int) -> None:
        self.stage.settings = ConsumerSettings(size_max=size_max)

    # -- clients ----------------------------------------------------------------------------------------------------------

    @rule(number=clients, impatient=st.booleans())
    def send(self, number: int, impatient: bool = False) -> None:
        client = self.clients[number]
        self._tick(client)
        if client.heartbeat is not None:
            if not impatient:
                return
            client.unsure = True
        if client.assigned is not None:
            client.assigned, client.unsure = None, True
        client.sent_ms = self.stage.now_ms
        if not client.member_id:
            client.member_id = f"m{number}-{next(self.incarnations)}"
        if client.epoch == 0:
            assert not client.owned
            client.asked, client.said = client.wants, set()
            client.heartbeat = self.stage.join(
                client.member_id,
                *(() if client.regex else client.wants),
                regex=client.regex,
                instance=client.instance,
                assignor=client.assignor,
                rebalance_ms=REBALANCE_MS,
            )
            return
        client.unsure = client.unsure or client.asked != client.wants
        client.asked = client.wants
        asks = {"topics": list(client.wants)} if client.regex is None else {"regex": client.regex}
        client.heartbeat = self.stage.beat(
            client.member_id,
            client.epoch,
            None if client.said == client.owned and not client.unsure else by_topic(client.owned),
            instance=client.instance,
            **(asks | {"rebalance_ms": REBALANCE_MS} if client.unsure else {}),  # type: ignore[arg-type]
        )
        client.said = set(client.owned)

    @rule(number=clients, acts=st.booleans())
    def hear(self, number: int, acts: bool = True) -> None:
        client = self.clients[number]
        heartbeat = client.heartbeat
        if heartbeat is None or not heartbeat.answered:
            return
        client.heartbeat = None
        error = heartbeat.error
        if error in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND):
            client.lose()
        elif error == ErrorCode.FENCED_INSTANCE_ID:
            client.vanish()
        elif error == ErrorCode.GROUP_MAX_SIZE_REACHED:
            client.lose()  # it was fenced, and others took its place
        elif error == ErrorCode.UNRELEASED_INSTANCE_ID:
            assert client.epoch == 0
        elif error:
            client.unsure = True
        elif client.member_id and heartbeat.reply.member_id == client.member_id:
            client.unsure = False
            client.epoch = heartbeat.epoch
            since_ms, client.lease_ms = client.lease_ms - SESSION_MS, client.sent_ms + SESSION_MS
            given = heartbeat.assigned
            if given is not None:
                client.assigned = {(topic, partition) for topic, numbers in given.items() for partition in numbers}
                if client.owned - client.assigned:
                    due_ms = since_ms + REBALANCE_MS  # perhaps an answer that was lost told it so
                    client.due_ms = due_ms if client.due_ms is None else min(client.due_ms, due_ms)
        self._tick(client)
        if acts:
            self.act(number)

    @rule(number=clients)
    def act(self, number: int) -> None:
        """Gives up, and takes."""
        client = self.clients[number]
        if client.assigned is not None and client.heartbeat is None:
            client.owned, client.assigned, client.due_ms = client.assigned, None, None

    @rule(number=clients)
    def go_around(self, number: int) -> None:
        self.send(number)
        self.hear(number)

    @rule()
    def everybody_goes_around(self) -> None:
        for client in self.clients:
            if client.member_id:
                self.go_around(client.number)

    @rule(number=clients)
    def hear_nothing(self, number: int) -> None:
        client = self.clients[number]
        if client.heartbeat is not None:
            client.heartbeat, client.unsure = None, True

    @rule(number=clients, wants=st.sampled_from(WANTS))
    def want(self, number: int, wants: tuple[str, ...]) -> None:
        client = self.clients[number]
        client.wants = wants

    @rule(number=clients, stays=st.booleans())
    def leave(self, number: int, stays: bool) -> None:
        """Leaves. A static member says whether it will come back. The answer does not count."""
        client = self.clients[number]
        if client.member_id and client.epoch > 0:
            epoch = -2 if stays and client.instance is not None else -1
            member_id = client.member_id
            client.vanish()
            self.stage.leave(member_id, instance=client.instance, epoch=epoch)

    @rule(number=clients)
    def crash(self, number: int) -> None:
        self.clients[number].vanish()

    @rule(number=clients, back=st.integers(1, 3))
    def somebody_of_the_past_asks(self, number: int, back: int) -> None:
        client = self.clients[number]
        for member_id, epoch in client.former[-back:][:1]:
            stranger = self.stage.beat(member_id, epoch or 1, {}, instance=client.instance)
            known = self.stage.groups.get("g")
            if stranger.answered and known is not None and member_id not in known.members:
                assert stranger.error != 0
        group = self.stage.groups.get("g")
        member = group.members.get(client.member_id) if group is not None else None
        if member is not None and not self.stage.holds:
            for epoch in range(1, max(member.previous_epoch, 1)):
                old = self.stage.beat(client.member_id, epoch, {}, instance=client.instance)
                assert old.error != 0, "an old epoch was let in"

    @rule(ms=st.sampled_from([1, 1000, 5000, 20_000, 45_000, 60_000]), alive=st.booleans())
    def wait(self, ms: int, alive: bool) -> None:
        """A client is alive in steps of 3 seconds."""
        while ms > 0:
            step = min(3000, ms) if alive else ms
            self.stage.wait(step)
            ms -= step
            for client in self.clients:
                self._tick(client)
                if alive and client.member_id and client.heartbeat is None:
                    self.send(client.number)
                    self.hear(client.number, acts=client.number != 2)
            self.nobody_owns_what_another_owns()

    def _tick(self, client: Client) -> None:
        now_ms = self.stage.now_ms
        if client.epoch > 0 and (now_ms >= client.lease_ms or (client.due_ms is not None and now_ms >= client.due_ms)):
            client.lose()
            client.heartbeat = None

    # -- topics and owners ----------------------------------------------------------------------------------------------

    @rule(topics=st.sampled_from(TOPICS))
    def set_topics(self, topics: dict[str, int]) -> None:
        self.stage.set_topics(**topics)

    @rule(stored=st.booleans())
    def fail_over(self, stored: bool) -> None:
        self.stage.fence(stored=stored)
        self.taken_back()

    def taken_back(self) -> None:
        group = self.stage.groups.get("g")
        self.state = group.state if group is not None else State.EMPTY

    # -- what holds -------------------------------------------------------------------------------------------------------

    @invariant()
    def nobody_owns_what_another_owns(self) -> None:
        for client in self.clients:
            self._tick(client)
        for item, other in combinations(self.clients, 2):
            assert not item.owned & other.owned, f"{item} and {other}"

    @invariant()
    def the_tables_agree(self) -> None:
        if self.stage.shard.state is not ShardState.SERVING:
            return
        for group in self.stage.groups.values():
            agrees(group)
            is_looked_at_again(self.stage, group)
            assert leads_to(self.state, group.state), (self.state, group.state)
            self.state = group.state

    @rule()
    def the_log_says_the_same(self) -> None:
        if not self.stage.holds:
            survives(self.stage)

    def teardown(self) -> None:
        self.stage.holds = False
        self.stage.settle()
        self.stage.settings = ConsumerSettings()
        for client in self.clients[4:]:
            client.vanish()
        self._quiet(60)
        self.stage.set_topics(t=5, u=2, v=1)
        self._quiet(10)
        survives(self.stage)
        self.stage.wait(SESSION_MS)
        assert self.stage.state() == "Empty"
        assert self.stage.shard.next_deadline() is None, "something is looked at for ever"

    def _quiet(self, rounds: int) -> None:
        """Every present member reaches its target assignment."""
        for _ in range(rounds):
            self.stage.wait(3000)
            for client in self.clients[:4]:
                self.send(client.number)
                self.hear(client.number)
            self.nobody_owns_what_another_owns()
        self.the_tables_agree()
        assert self.stage.state() == "Stable"
        group = self.stage.group()
        present = self.clients[:4]
        assert set(group.members) == {client.member_id for client in present}
        assert all(client.epoch == group.facts.assignment_epoch == group.facts.epoch for client in present)
        readable = _all(self.stage, set().union(*(client.reads() for client in present)))
        assert set().union(*(client.owned for client in present)) == readable, "somebody is to read all there is"
        for client in present:
            assert {topic for topic, _ in client.owned} <= client.reads()
        before = len(self.stage.log)
        for client in present:
            self.send(client.number)
            self.hear(client.number)
        assert len(self.stage.log) == before, "it does not come to rest"
        assert not group.facts.rebalances_now


def _all(stage: Stage, topics: Iterable[str]) -> Owned:
    by_name = stage.topics.by_name
    return {(name, number) for name in topics if name in by_name for number in range(by_name[name].partitions)}


def random_run(seed: int, steps: int = 120) -> None:
    """The same rules in the proportions of a life: hypothesis finds what is odd, this what is deep."""
    draw = random.Random(seed)
    run = ConsumerModel()
    run.begin(draw.choice([100, 100, 3]))

    moves: list[tuple[float, Callable[[int], None]]] = [
        (10, lambda number: run.send(number, draw.random() < 0.1)),
        (10, lambda number: run.hear(number, draw.random() < 0.8)),
        (5, lambda number: run.act(number)),
        (12, lambda number: run.go_around(number)),
        (6, lambda _: run.everybody_goes_around()),
        (3, lambda number: run.hear_nothing(number)),
        (2, lambda number: run.want(number, draw.choice(WANTS))),
        (1.5, lambda number: run.leave(number, draw.random() < 0.5)),
        (1, lambda number: run.crash(number)),
        (2, lambda number: run.somebody_of_the_past_asks(number, draw.randint(1, 3))),
        (4, lambda _: run.wait(draw.choice([1, 1000, 5000]), draw.random() < 0.8)),
        (1.5, lambda _: run.wait(draw.choice([20_000, 45_000, 60_000]), draw.random() < 0.8)),
        (1, lambda _: run.set_topics(draw.choice(TOPICS))),
        (2, lambda _: run.hold()),
        (2, lambda _: run.release() if run.stage.holds else None),
        (1.5, lambda _: run.refuse(draw.choice([19, 10])) if run.has_held else None),
        (1.5, lambda _: run.lose_sight(draw.random() < 0.5) if run.has_held else None),
        (0.7, lambda _: run.fail_over(draw.random() < 0.5)),
        (0.5, lambda _: run.the_log_says_the_same()),
    ]
    for move in draw.choices([made for _, made in moves], [weight for weight, _ in moves], k=steps):
        move(draw.randrange(6))
        run.nobody_owns_what_another_owns()
        run.the_tables_agree()
    run.teardown()
