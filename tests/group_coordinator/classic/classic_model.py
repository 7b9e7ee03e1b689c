"""Whatever clients, clocks, logs and owners do: a generation has one leader and one assignment, nobody of an old one is let in,
and whoever asks is answered in the end.

Clients do what real ones do with each answer, late or never. Some are old, some static, some crash and leave their requests
behind. Appends are held, refused, or lost with nobody knowing; owners fail, and the next knows what the log says.
"""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from libs.coordinator.core.states import State as ShardState
from libs.wire.errors import ErrorCode
from services.group_coordinator.core.classic.classic_groups import STRANDED
from services.group_coordinator.core.classic.group import Group
from services.group_coordinator.core.classic.group_decision import join_park, joins_key, session_key, sync_park, syncs_key
from services.group_coordinator.core.classic.states import State
from services.group_coordinator.core.model.classic_settings import ClassicSettings
from services.group_coordinator.core.model.records import ClassicGroupChanged
from services.group_coordinator.core.record_formats.record_codec import decode
from tests.group_coordinator.classic.stage import Stage
from tests.group_coordinator.one_shard import CoordinatorRequest
from tests.group_coordinator.one_shard_model import OneShardModel

SESSION_MS = 10_000
PROTOCOLS = {
    "both": (("range", b"t"), ("sticky", b"t")),
    "sticky": (("sticky", b"t"),),
    "other": (("range", b"u"), ("sticky", b"u")),
}
clients = st.integers(0, 5)


@dataclass
class Client:
    number: int
    member_id: str = ""
    generation: int = -1
    joining: CoordinatorRequest | None = None
    syncing: CoordinatorRequest | None = None
    former: list[tuple[str, int]] = field(default_factory=list)

    @property
    def instance(self) -> str | None:
        return f"i{self.number}" if self.number in (3, 4) else None

    @property
    def version(self) -> int:
        return {1: 3, 4: 8}.get(self.number, 9)


class ClassicModel(OneShardModel):
    def __init__(self) -> None:
        super().__init__()
        self.stage: Stage = Stage()
        self.clients = [Client(number) for number in range(6)]
        self.askings: list[CoordinatorRequest] = []
        self.owners: dict[str, int] = {}
        """Member id → client."""
        self.leaders: dict[tuple[int, int], int] = {}
        """(owner, generation) → client."""
        self.agreed: dict[int, bytes] = {}
        """Generation → the name of its assignment."""
        self.nonces = count()
        self.rebalance_ms = 30_000

    @initialize(
        delay_ms=st.sampled_from([0, 3000]), size_max=st.sampled_from([100, 3]), rebalance_ms=st.sampled_from([30_000, 8_000])
    )
    def begin(self, delay_ms: int, size_max: int, rebalance_ms: int) -> None:
        self.rebalance_ms = rebalance_ms
        self.stage.settings = ClassicSettings(initial_delay_ms=delay_ms, size_max=size_max)
        self.stage.fail_over()

    # -- clients ----------------------------------------------------------------------------------------------------------

    def _join(self, client: Client, protocols: str) -> None:
        client.joining = self.stage.join(
            client.member_id,
            version=client.version,
            instance=client.instance,
            protocols=PROTOCOLS[protocols],
            session_ms=SESSION_MS,
            rebalance_ms=self.rebalance_ms,
        )
        client.syncing = None
        self.askings.append(client.joining)

    def _forget(self, client: Client) -> None:
        if client.member_id:
            client.former.append((client.member_id, client.generation))
        client.member_id, client.generation, client.joining, client.syncing = "", -1, None, None

    @rule(number=clients, protocols=st.sampled_from(sorted(PROTOCOLS)), impatient=st.booleans())
    def join(self, number: int, protocols: str, impatient: bool) -> None:
        """Joins, even if it waits already or has a generation: its client is impatient, or was told to join again."""
        client = self.clients[number]
        if impatient or (client.joining is None and client.syncing is None):
            self._join(client, protocols)

    @rule(size=st.integers(1, 6))
    def calm(self, size: int) -> None:
        """Nothing goes wrong for a while."""
        self.stage.holds = False
        self.stage.settle()
        for _ in range(4):
            for client in self.clients[:size]:
                if client.joining is None and client.syncing is None:
                    if not client.member_id or self.stage.heartbeat(client.member_id, client.generation):
                        self._join(client, "both")
                else:
                    self.complete_if_all_joined(client.number, "both")
            self.stage.wait(3000)

    @rule(number=clients, protocols=st.sampled_from(sorted(PROTOCOLS)))
    def complete_if_all_joined(self, number: int, protocols: str) -> None:
        client = self.clients[number]
        if client.joining is not None and client.joining.answered:
            self._after_join(client, client.joining, protocols)
        elif client.syncing is not None and client.syncing.answered:
            error, client.syncing = client.syncing.error, None
            if error:
                self._after_error(client, error, protocols)

    @rule(protocols=st.sampled_from(["both", "sticky"]))
    def everybody_goes_on(self, protocols: str) -> None:
        for _ in range(3):
            for client in self.clients:
                self.complete_if_all_joined(client.number, protocols)

    def _after_join(self, client: Client, joined: CoordinatorRequest, protocols: str) -> None:
        client.joining = None
        if joined.error:
            if joined.error == ErrorCode.MEMBER_ID_REQUIRED:
                client.member_id = joined.reply.member_id
                self._join(client, protocols)
            else:
                self._after_error(client, joined.error, protocols)
            return
        reply = joined.reply
        client.member_id, client.generation = reply.member_id, reply.generation_id
        self.owners[client.member_id] = client.number
        leads = reply.leader == client.member_id and not reply.skip_assignment
        given = {}
        if leads:
            nonce = next(self.nonces)
            given = {member.member_id: b"%d" % nonce for member in reply.members}
        client.syncing = self.stage.sync(client.member_id, client.generation, given, instance=client.instance)
        self.askings.append(client.syncing)

    def _after_error(self, client: Client, error: int, protocols: str) -> None:
        if error in (
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.FENCED_INSTANCE_ID,
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ):
            self._forget(client)
        if error != ErrorCode.FENCED_INSTANCE_ID:
            self._join(client, protocols)

    @rule(number=clients)
    def heartbeat(self, number: int) -> None:
        client = self.clients[number]
        if client.member_id:
            self._heartbeat(client.member_id, client.generation, client.instance)

    def _heartbeat(self, member_id: str, generation: int, instance: str | None) -> None:
        held = self.stage.holds
        if held:
            self.stage.holds = False
            self.stage.settle()
        newest = max(self.agreed, default=-1)
        error = self.stage.heartbeat(member_id, generation, instance=instance)
        if error == 0:
            assert generation >= newest, "an old generation was let in"

    @rule(number=clients, back=st.integers(1, 3))
    def somebody_of_the_past_asks(self, number: int, back: int) -> None:
        client = self.clients[number]
        for member_id, generation in client.former[-back:][:1]:
            self._heartbeat(member_id, generation, client.instance)
            self.askings.append(self.stage.sync(member_id, generation, {member_id: b"999"}, instance=client.instance))
        if client.generation > 0:
            old = self.stage.sync(client.member_id, client.generation - 1, {client.member_id: b"998"})
            self.askings.append(old)

    @rule(number=clients)
    def leave(self, number: int) -> None:
        client = self.clients[number]
        if client.member_id and not self.stage.holds:
            self.stage.leave((client.member_id, client.instance))
            self._forget(client)

    @rule(number=clients)
    def crash(self, number: int) -> None:
        self._forget(self.clients[number])

    @rule(ms=st.sampled_from([1, 1000, 3000, 9_000, 10_000, 30_000]), alive=st.booleans())
    def wait(self, ms: int, alive: bool) -> None:
        self.stage.wait(ms)
        if alive and not self.stage.holds:
            for client in self.clients:
                self.heartbeat(client.number)

    # -- owners ------------------------------------------------------------------------------------------------------------

    @rule(stored=st.booleans())
    def fail_over(self, stored: bool) -> None:
        self.stage.fence(stored=stored)

    # -- what holds -------------------------------------------------------------------------------------------------------

    @invariant()
    def one_leader_and_one_assignment(self) -> None:
        epoch = self.stage.epoch
        still = []
        for pending in self.askings:
            if not pending.answered:
                still.append(pending)
                continue
            if pending.failure or pending.reply.error_code:
                continue
            if hasattr(pending.reply, "leader"):
                reply = pending.reply
                self.owners.setdefault(reply.member_id, self._client_of(pending))
                named = self._logged_generations().get(reply.generation_id)
                assert named is None or reply.member_id in named, "a failover would not know it"
                leader = self.owners.get(reply.leader)
                if leader is not None:
                    assert self.leaders.setdefault((epoch, reply.generation_id), leader) == leader
            else:
                name, generation = pending.reply.assignment, pending.request.generation_id
                assert name not in (b"998", b"999"), "a stranger assigned"
                assert generation in self._logged_generations(), "told before it was in the log"
                if name:  # a member that the leader did not know of gets none
                    assert self.agreed.setdefault(generation, name) == name
                self.agreed.setdefault(generation, name)
        self.askings = still

    def _client_of(self, pending: CoordinatorRequest) -> int:
        return next((client.number for client in self.clients if client.joining is pending), -1)

    def _logged_generations(self) -> dict[int, set[str]]:
        """Names that occur in the members' records."""
        result: dict[int, set[str]] = {}
        for kept in self.stage.log:
            record = decode(*kept)
            if isinstance(record, ClassicGroupChanged) and record.members:
                result.setdefault(record.generation, set()).update(member.member_id for member in record.members)
        return result

    @invariant()
    def the_tables_agree(self) -> None:
        shard = self.stage.shard
        if shard.state is not ShardState.SERVING:
            return
        parked = set(shard.pending.parked)
        expected = set()
        for group in self.stage.groups.values():
            _agrees(group)
            _is_looked_at_again(self.stage, group)
            expected |= {join_park(group.name, member_id) for member_id in group.joining}
            expected |= {sync_park(group.name, member_id) for member_id in group.syncing}
        machine = shard.machine
        stranded = machine.classic.stranded_requests  # type: ignore[attr-defined]
        expected |= {(join_park if item.joins else sync_park)(item.group, item.member_id) for item in stranded}
        assert parked == expected
        assert not stranded or shard.timers.deadline(STRANDED) is not None

    def teardown(self) -> None:
        self.stage.holds = False
        self.stage.settle()
        for _ in range(4):
            self.stage.wait(400_000)
        self.one_leader_and_one_assignment()
        assert not self.askings, "somebody waits for ever"
        assert all(group.state is State.EMPTY for group in self.stage.groups.values())
        assert self.stage.shard.next_deadline() is None, "something is looked at for ever"


def _agrees(group: Group) -> None:
    members = set(group.members)
    assert set(group.joining) <= members
    assert set(group.syncing) <= members
    assert set(group.unsynced) <= members
    assert not set(group.pending) & members
    assert dict(group.statics) == {
        member.instance_id: member.member_id for member in group.members.values() if member.instance_id is not None
    }
    assert group.supporters == Counter(name for member in group.members.values() for name, _ in member.protocols)
    assert group.timeouts == Counter(member.rebalance_timeout_ms for member in group.members.values())
    state = group.state
    assert state is State.PREPARING_REBALANCE or not group.joining
    assert state is State.COMPLETING_REBALANCE or not group.syncing
    assert state in (State.COMPLETING_REBALANCE, State.STABLE) or not group.unsynced
    assert state in (State.EMPTY, State.PREPARING_REBALANCE) or members
    assert state is not State.EMPTY or not members
    if state in (State.COMPLETING_REBALANCE, State.STABLE):
        assert group.facts.leader in members
        assert not any(member.new for member in group.members.values())
    assert not group.is_forgettable


def _is_looked_at_again(stage: Stage, group: Group) -> None:
    """Every member that may stay away has a deadline."""
    timers = stage.shard.timers
    for member_id, member in group.members.items():
        if member.new or not (member_id in group.joining or member_id in group.syncing):
            assert timers.deadline(session_key(group.name, member_id)) is not None
    for member_id in group.pending:
        assert timers.deadline(session_key(group.name, member_id)) is not None
    if group.state is State.PREPARING_REBALANCE:
        assert timers.deadline(joins_key(group.name)) is not None
    if group.unsynced:
        assert timers.deadline(syncs_key(group.name)) is not None


def random_run(seed: int, steps: int = 150) -> None:
    """The same rules in the proportions of a life: hypothesis finds what is odd, this what is deep."""
    draw = random.Random(seed)
    run = ClassicModel()
    run.begin(draw.choice([0, 3000]), draw.choice([100, 100, 3]), draw.choice([30_000, 8_000]))
    protocols = sorted(PROTOCOLS)

    moves: list[tuple[float, Callable[[int], None]]] = [
        (5, lambda number: run.join(number, draw.choice(protocols), draw.random() < 0.1)),
        (20, lambda number: run.complete_if_all_joined(number, draw.choice(protocols))),
        (3, lambda _: run.everybody_goes_on("both")),
        (2, lambda _: run.calm(draw.randint(1, 6))),
        (5, lambda number: run.heartbeat(number)),
        (3, lambda number: run.somebody_of_the_past_asks(number, draw.randint(1, 3))),
        (1, lambda number: run.leave(number)),
        (1, lambda number: run.crash(number)),
        (8, lambda _: run.wait(draw.choice([1, 1000, 3000]), draw.random() < 0.8)),
        (2, lambda _: run.wait(draw.choice([9_000, 10_000, 30_000]), draw.random() < 0.8)),
        (3, lambda _: run.hold()),
        (1, lambda _: run.release() if run.stage.holds else None),
        (2, lambda _: run.refuse(draw.choice([19, 10])) if run.has_held else None),
        (2, lambda _: run.lose_sight(draw.random() < 0.5) if run.has_held else None),
        (0.5, lambda _: run.fail_over(draw.random() < 0.5)),
    ]
    for move in draw.choices([made for _, made in moves], [weight for weight, _ in moves], k=steps):
        move(draw.randrange(6))
        run.one_leader_and_one_assignment()
        run.the_tables_agree()
    run.teardown()
