"""A model of a shard's owners, their appends and the partition's leader. No answer rests on uncommitted state, and state equals
the log.

The leader fences as `services/storage/core/produce/ownership.py` does, in its own words. The log may lose uncommitted records at
an election. Owners are deposed at any time, and do not know it.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from libs.coordinator.core.decisions import KeyValue
from libs.coordinator.core.shard import Fence, PlannedAppend, Shard
from libs.coordinator.core.states import State
from libs.wire.errors import ErrorCode
from tests.coordinator.shelf import NEVER, Add, Event, Fail, Put, Read, Recorded, Remove, Shelf, Wait, replayed

Owned = Shard[Event, str, Recorded, "Ticket"]

keys = st.sampled_from("abc")
numbers = st.integers(0, 9)
owners = st.integers(0, 1)
events = st.one_of(
    st.builds(Put, keys, numbers, st.one_of(st.just(NEVER), st.integers(0, 3000))),
    st.builds(Add, keys, numbers),
    st.builds(Remove, keys),
    st.builds(Read, keys, st.booleans()),
    st.builds(Wait, keys, st.integers(0, 5)),
    st.builds(Fail, st.booleans()),
)


@dataclass(eq=False)
class Ticket:
    event: Event
    held: dict[str, object]
    """What the decision saw."""
    needs: int
    """The log's length, all of it committed, before this may be answered."""
    floor: int = 0
    """Acknowledged writes before a request that its answer has to show."""
    answered: bool = False
    error: int = 0


@dataclass
class Owner:
    shard: Owned
    under_way: PlannedAppend | None = None
    verdict: int | None = None
    """Of the leader, on its way to the owner: 0 is in the log up to `stored_to`."""
    stored_to: int = 0
    tickets: list[Ticket] = field(default_factory=list)


class Leader:
    def __init__(self) -> None:
        self.epoch = 0
        self.log: list[KeyValue] = []
        self.committed = 0
        self.highest = 0
        self.claimed: Fence | None = None

    def claim(self, fence: Fence) -> int:
        if fence.leader_epoch != self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if fence.owner_epoch < self.highest:
            return ErrorCode.NOT_COORDINATOR
        if self.claimed is not None and (self.claimed.owner_epoch, self.claimed.claim) >= (fence.owner_epoch, fence.claim):
            return ErrorCode.FENCED_LEADER_EPOCH
        self.highest, self.claimed = fence.owner_epoch, fence
        return 0

    def append(self, plan: PlannedAppend) -> int:
        if plan.fence.owner_epoch < self.highest:
            return ErrorCode.NOT_COORDINATOR
        if plan.fence != self.claimed:
            return ErrorCode.FENCED_LEADER_EPOCH
        if plan.offset != len(self.log):
            return 1
        self.log += plan.records
        return 0

    def elect(self, keep: int) -> None:
        self.epoch += 1
        self.log = self.log[: max(self.committed, min(keep, len(self.log)))]
        self.claimed = None


class ShardMachine(RuleBasedStateMachine):
    leaders: type[Leader] = Leader

    def __init__(self) -> None:
        super().__init__()
        self.leader = self.leaders()
        self.now_ms = 0
        self.epoch = 0
        self.who = 0
        self.late: list[PlannedAppend] = []
        self.owners: list[Owner] = []
        self.acknowledged: dict[int, int] = {}
        """Owner epoch → end of the log that a caller was told of."""
        for _ in range(2):
            self.owners.append(self._new())

    def _new(self) -> Owner:
        self.epoch += 1
        return Owner(Shard(Shelf, self.epoch, batch_bytes_max=1000))

    # -- owners -----------------------------------------------------------------------------------------------------------

    @rule(number=owners)
    def assign_anew(self, number: int) -> None:
        """The former owner dies, and what it sent may still arrive."""
        owner = self.owners[number]
        if owner.under_way is not None and owner.verdict is None:
            self.late.append(owner.under_way)
        owner.shard.unload()
        self._answers(owner)
        self.owners[number] = self._new()

    @rule(number=owners, event=events)
    def submit(self, number: int, event: Event) -> None:
        owner = self.owners[number]
        if isinstance(event, Wait):
            self.who += 1
            event = Wait(event.key, self.who)
        shard = owner.shard
        uncommitted = [record for group in shard.pending.groups for record in group.records]
        held = dict(shard.machine.numbers)
        ticket = Ticket(event, held, 0)
        owner.tickets.append(ticket)
        try:
            shard.submit(event, self.now_ms, ticket)
        except RuntimeError:
            assert isinstance(event, Fail)
        after = [record for group in shard.pending.groups for record in group.records]
        assert after[: len(uncommitted)] == uncommitted
        ticket.needs = shard.position + len(after)
        current = isinstance(event, Read) and event.current
        answer = [to for epoch, to in self.acknowledged.items() if current or epoch <= shard.owner_epoch]
        ticket.floor = max(answer, default=0)
        self._answers(owner)

    @rule(number=owners)
    def claim(self, number: int) -> None:
        shard = self.owners[number].shard
        if shard.state is State.CLAIMING:
            verdict = self.leader.claim(shard.next_claim(self.leader.epoch))
            if verdict == 0:
                shard.claimed(0, len(self.leader.log))
            elif verdict == ErrorCode.NOT_COORDINATOR:
                shard.fenced()
            else:
                shard.outcome_unknown()
            self._answers(self.owners[number])

    @rule(number=owners, count=st.integers(1, 5))
    def load(self, number: int, count: int) -> None:
        shard = self.owners[number].shard
        if shard.state is State.LOADING:
            end = min(shard.position + count, self.leader.committed)
            shard.replay_committed(self.leader.log[shard.position : end])
            shard.loaded(end, self.now_ms)

    @rule(number=owners)
    def send(self, number: int) -> None:
        owner = self.owners[number]
        plan = owner.shard.next_append()
        if plan is not None:
            assert owner.under_way is None, "one append at a time"
            owner.under_way = plan

    @rule(number=owners, too_few=st.booleans())
    def arrive(self, number: int, too_few: bool) -> None:
        owner = self.owners[number]
        if owner.under_way is not None and owner.verdict is None:
            owner.verdict = ErrorCode.NOT_ENOUGH_REPLICAS if too_few else self.leader.append(owner.under_way)
            owner.stored_to = owner.under_way.offset + len(owner.under_way.records)

    @rule(number=owners)
    def hear(self, number: int) -> None:
        """An owner hears of its append's outcome; of success only once it is committed."""
        owner = self.owners[number]
        if owner.verdict is None or owner.under_way is None:
            return
        if owner.verdict:
            owner.shard.refused(owner.verdict)
        elif owner.stored_to <= self.leader.committed and self._still_there(owner.under_way):
            owner.shard.appended()
        elif owner.under_way.fence.leader_epoch != self.leader.epoch:
            owner.shard.outcome_unknown()
        else:
            return
        owner.under_way = owner.verdict = None
        self._answers(owner)

    def _still_there(self, plan: PlannedAppend) -> bool:
        return list(plan.records) == self.leader.log[plan.offset : plan.offset + len(plan.records)]

    @rule(number=owners)
    def lose(self, number: int) -> None:
        """The connection breaks, or the image names another leader: what was sent may arrive later."""
        owner = self.owners[number]
        if owner.under_way is not None:
            if owner.verdict is None:
                self.late.append(owner.under_way)
            owner.under_way = owner.verdict = None
        owner.shard.outcome_unknown()
        self._answers(owner)

    @precondition(lambda self: self.late)
    @rule(data=st.data())
    def arrive_late(self, data: st.DataObject) -> None:
        self.deliver_late(data.draw(st.integers(0, len(self.late) - 1)))

    def deliver_late(self, which: int) -> None:
        self.leader.append(self.late.pop(which))

    @rule(number=owners, ms=st.integers(1, 1000))
    def pass_time(self, number: int, ms: int) -> None:
        self.now_ms += ms
        while self.owners[number].shard.expire(self.now_ms):
            pass
        self._answers(self.owners[number])

    # -- the leader -------------------------------------------------------------------------------------------------------

    @rule(count=st.integers(1, 5))
    def commit(self, count: int) -> None:
        self.leader.committed = min(len(self.leader.log), self.leader.committed + count)

    @rule(keep=st.integers(0, 30))
    def elect(self, keep: int) -> None:
        self.leader.elect(keep)

    # -- what must hold ---------------------------------------------------------------------------------------------------

    def _answers(self, owner: Owner) -> None:
        for ticket, error, reply in owner.shard.take_answers():
            assert not ticket.answered, "answered twice"
            ticket.answered, ticket.error = True, error
            owner.tickets.remove(ticket)
            if error:
                continue
            assert ticket.needs <= self.leader.committed, "answered before it was committed"
            assert ticket.needs >= ticket.floor, "somebody was told more than this knew"
            answer = self.acknowledged.get(owner.shard.owner_epoch, 0)
            self.acknowledged[owner.shard.owner_epoch] = max(answer, ticket.needs)
            if isinstance(ticket.event, Read):
                now = replayed(self.leader.log[: ticket.needs]).get(ticket.event.key)
                assert reply == (str(now[0]) if now else "nothing"), "read what was never committed"

    @invariant()
    def state_is_what_the_log_and_the_uncommitted_say(self) -> None:
        for owner in self.owners:
            shard = owner.shard
            if shard.state in (State.SERVING, State.UNLOADING):
                assert shard.position <= self.leader.committed
                groups = shard.pending.groups
                uncommitted = [record for group in groups for record in group.records]
                assert dict(shard.machine.numbers) == replayed(self.leader.log[: shard.position] + uncommitted)

    @invariant()
    def who_waits_is_parked(self) -> None:
        """Undoing is exact also for what is not in the log."""
        for owner in self.owners:
            machine = owner.shard.machine
            waiting = {who for row in machine.waiting.values() for who in row}
            assert waiting == {key[1] for key in owner.shard.pending.parked}

    @invariant()
    def what_expires_has_a_timer(self) -> None:
        for owner in self.owners:
            shard = owner.shard
            if shard.state is State.SERVING and not shard.pending.groups:
                assert not len(shard.journal), "what is committed is forgotten"
                for key, (_, expires_ms) in shard.machine.numbers.items():
                    assert expires_ms == NEVER or shard.timers.deadline(("expiry", key)) is not None

    @invariant()
    def everybody_who_asked_is_remembered(self) -> None:
        for owner in self.owners:
            assert len(owner.tickets) == owner.shard.waiting

    def teardown(self) -> None:
        """Ends all faults. The newest owner goes on; a successor loads what the log says; every request is answered."""
        self._heals(max(range(2), key=lambda number: self.owners[number].shard.owner_epoch))
        owner = self._new()
        self.leader.committed = len(self.leader.log)
        assert self.leader.claim(owner.shard.next_claim(self.leader.epoch)) == 0
        owner.shard.claimed(0, len(self.leader.log))
        owner.shard.replay_committed(self.leader.log)
        owner.shard.loaded(len(self.leader.log), self.now_ms)
        assert owner.shard.state is State.SERVING
        assert dict(owner.shard.machine.numbers) == replayed(self.leader.log)
        for former in self.owners:
            former.shard.unload()
            self._answers(former)
            former.shard.outcome_unknown()
            self._answers(former)
            assert former.shard.state is State.CLOSED
            assert not former.tickets

    def _heals(self, number: int) -> None:
        self._go_on(number)
        assert self.owners[number].shard.state is State.SERVING
        for _ in range(2):  # the first may find out that the leader moved
            self.submit(number, Put("a", 1))
            ticket = self.owners[number].tickets[-1]
            self._go_on(number)
        assert ticket.answered, "nobody waits for ever"
        assert ticket.error == 0, "it goes on"

    def _go_on(self, number: int) -> None:
        for _ in range(8):
            self.hear(number)
            self.claim(number)
            self.load(number, len(self.leader.log) + 1)
            self.send(number)
            self.arrive(number, False)
            self.commit(len(self.leader.log) + 1)
            self.hear(number)

    def check(self) -> None:
        self.state_is_what_the_log_and_the_uncommitted_say()
        self.who_waits_is_parked()
        self.what_expires_has_a_timer()
        self.everybody_who_asked_is_remembered()


def random_run(seed: int, steps: int = 200) -> None:
    """The same rules in the proportions of a life: hypothesis finds what is odd, this what is deep."""
    draw = random.Random(seed)
    run = ShardMachine()
    both = range(2)

    def event() -> Event:
        key, number = draw.choice("abc"), draw.randrange(10)
        kinds = [
            Put(key, number, NEVER),
            Put(key, number, run.now_ms + draw.randrange(3000)),
            Add(key, number),
            Add(key, number),
            Remove(key),
            Read(key),
            Read(key, True),
            Wait(key, 0),
            Fail(draw.random() < 0.5),
        ]
        return draw.choices(kinds, [2, 2, 3, 3, 2, 3, 2, 2, 0.3])[0]

    def late() -> None:
        if run.late:
            run.deliver_late(draw.randrange(len(run.late)))

    moves: list[tuple[float, Callable[[int], None]]] = [
        (10, lambda number: run.submit(number, event())),
        (7, lambda number: run.send(number)),
        (7, lambda number: run.arrive(number, draw.random() < 0.2)),
        (7, lambda number: run.hear(number)),
        (6, lambda _: run.commit(draw.randint(1, 5))),
        (8, lambda number: run.claim(number)),
        (12, lambda number: run.load(number, draw.randint(1, 20))),
        (1, lambda number: run.lose(number)),
        (2, lambda _: late()),
        (2, lambda number: run.pass_time(number, draw.randint(1, 1000))),
        (0.5, lambda _: run.elect(draw.randint(0, len(run.leader.log) + 3))),
        (0.5, lambda number: run.assign_anew(number)),
    ]
    weights = [weight for weight, _ in moves]
    for move in draw.choices([made for _, made in moves], weights, k=steps):
        move(draw.choice(both))
        run.check()
    run.teardown()
