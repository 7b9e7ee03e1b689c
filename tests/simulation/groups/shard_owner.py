"""A coordinator process with one shard: feeds the real `Shard`, as `ShardDriver` does, on the bench's time.

What it asks of the log is late, or lost in either direction. It hears late who leads, and that it owns the shard no longer.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from libs.coordinator.core.decisions import KeyValue
from libs.coordinator.core.shard import Shard
from libs.coordinator.core.states import State
from libs.coordinator.core.tables import Journal
from libs.coordinator.core.write_errors import NOT_COORDINATOR
from libs.coordinator.log.internal_log import Claimed, Refused, Stored
from services.group_coordinator.core.group_machine import GroupMachine
from services.group_coordinator.core.model.requests import RequestEvent
from tests.simulation.groups.partition import Partition
from tests.simulation.groups.simulator import Simulator

CLAIM_MS_MAX, APPEND_MS_MAX = 3000, 6000
READ_TOGETHER = 40


class Unanswered(NamedTuple):
    """The outcome of an append that was not answered in time."""


class StorageLink:
    """Between owners and the partition's leader."""

    def __init__(self, simulator: Simulator) -> None:
        self._random = simulator.random
        self.loss = 0.0
        self.late_ms = 0.0

    def takes_ms(self) -> float | None:
        """None: it never arrives."""
        if self.loss and self._random.random() < self.loss:
            return None
        return 1 + self._random.random() + (self.late_ms * self._random.random() ** 3 if self.late_ms else 0)


class Owner:
    def __init__(
        self,
        simulator: Simulator,
        partition: Partition,
        storage_link: StorageLink,
        owner_epoch: int,
        make: Callable[[Journal], GroupMachine],
        answers: Callable[["Owner", Any, int, Any], None],
    ) -> None:
        self.simulator = simulator
        self.epoch = owner_epoch
        self.shard: Shard[RequestEvent, Any, Any, Any] = Shard(make, owner_epoch)
        self.dead = False
        self.skew_ms = simulator.random.randint(-2000, 2000)
        self.loads = 0
        self._partition = partition
        self._storage_link = storage_link
        self._answers_to = answers
        self._leader_epoch = partition.leader_epoch
        self._asking = 0
        self._busy = False
        self._looks_ms: float | None = None
        self._found: list[tuple[int, KeyValue]] = []
        simulator.later(1, self._step)

    def __str__(self) -> str:
        return f"owner {self.epoch}"

    @property
    def serves(self) -> bool:
        return not self.dead and self.shard.state is State.SERVING

    @property
    def is_quiet(self) -> bool:
        """Nothing is replayed that is not committed."""
        return self.serves and not self._busy and not self.shard.pending.groups

    @property
    def now_ms(self) -> int:
        return self.simulator.now_ms + self.skew_ms

    # -- what happens to it -----------------------------------------------------------------------------------------------

    def submit(self, asked: RequestEvent, ticket: Any) -> None:
        try:
            self.shard.submit(asked, self.now_ms, ticket)
        except Exception as error:
            self.simulator.fail(f"{self} cannot decide about {type(asked.request).__name__}: {error!r}")
        self._answer()
        self.simulator.later(0, self._step)

    def leader_moved(self, epoch: int) -> None:
        if self.dead or epoch <= self._leader_epoch:
            return
        self._leader_epoch = epoch
        if self._busy:
            self._asking += 1
            self._busy = False
            self.shard.outcome_unknown()
        elif self.shard.state is State.SERVING:
            self.shard.outcome_unknown(NOT_COORDINATOR)
        self._answer()
        self._step()

    def unload(self) -> None:
        if not self.dead:
            self.simulator.log_event(f"{self} is dismissed")
            self.shard.unload()
            self._answer()

    def kill(self) -> None:
        if not self.dead:
            self.simulator.log_event(f"{self} is killed")
            self.dead = True

    # -- what it does -----------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        if self.dead or self._busy:
            return
        match self.shard.state:
            case State.CLAIMING:
                fence = self.shard.next_claim(self._leader_epoch)
                self._ask(lambda reply: self._partition.claim(fence, reply), CLAIM_MS_MAX, self._claimed)
            case State.LOADING:
                self._read()
            case State.SERVING:
                self._serve()
            case _:
                pass

    def _ask(self, what: Callable[[Callable[[Any], None]], None], ms_max: int, then: Callable[[Any], None]) -> None:
        self._asking += 1
        self._busy = True
        number, simulator = self._asking, self.simulator
        there_ms = self._storage_link.takes_ms()

        def hears(outcome: Any) -> None:
            if self.dead or number != self._asking or not self._busy:
                return
            self._busy = False
            then(outcome)
            self._answer()
            self._step()

        def answered(outcome: Any) -> None:
            back_ms = self._storage_link.takes_ms()
            if back_ms is not None:
                simulator.later(back_ms, hears, outcome)

        if there_ms is not None:
            simulator.later(there_ms, what, answered)
        simulator.later(ms_max, hears, Unanswered())

    def _claimed(self, outcome: Any) -> None:
        shard, random = self.shard, self.simulator.random
        if shard.state is not State.CLAIMING:
            return  # it was dismissed meanwhile
        if isinstance(outcome, Claimed):
            shard.claimed(outcome.log_start, outcome.log_end)
            start = shard.position
            self._cleaned = random.random() < 0.5
            is_compacted_away = start == 0 and random.random() >= 0.5
            # An owner that has served may know groups that are not in the log yet. It reads on within `delete.retention.ms`.
            self._tombstones = self.loads > 0 or not is_compacted_away
            self._found = []
            self.simulator.log_event(f"{self} reads from {start} to {outcome.log_end}")
        elif isinstance(outcome, Refused) and outcome.error == NOT_COORDINATOR:
            self.simulator.log_event(f"{self} is fenced")
            shard.fenced()
        else:
            shard.outcome_unknown()
            self._pause()

    def _read(self) -> None:
        """Compacted or not, in pieces; only when all up to the claimed end is committed, which may take a while."""
        shard, end = self.shard, self.shard.progress.end
        if self._partition.committed < end:
            self._pause()
            return
        if not self._found and shard.position == shard.progress.start:
            self._found = self._partition.compacted(
                shard.position, end, cleaned=self._cleaned, tombstones=self._tombstones or shard.position > 0
            )
        piece, self._found = self._found[:READ_TOGETHER], self._found[READ_TOGETHER:]
        shard.replay_committed({record.key: record.value for _, record in piece}.items())
        shard.loaded(piece[-1][0] + 1 if self._found else end, self.now_ms)
        if shard.state is State.SERVING:
            self.loads += 1
            self.simulator.log_event(f"{self} serves from {end} on")
        self.simulator.later(1, self._step)

    def _serve(self) -> None:
        shard = self.shard
        try:
            while shard.expire(self.now_ms):
                pass
        except Exception as error:
            self.simulator.fail(f"{self} cannot decide about what is due: {error!r}")
        self._answer()
        if self.dead:
            return
        planned = shard.next_append()
        if planned is not None:
            self._ask(lambda reply: self._partition.append(planned, reply), APPEND_MS_MAX, lambda it: self._appended(planned, it))
            return
        deadline = shard.next_deadline()
        if deadline is not None and (self._looks_ms is None or deadline < self._looks_ms or self._looks_ms <= self.now_ms):
            self._looks_ms = deadline
            self.simulator.later(max(deadline - self.now_ms, 1), self._step)

    def _appended(self, planned: Any, outcome: Any) -> None:
        if isinstance(outcome, Stored) and outcome.base_offset == planned.offset:
            self.shard.appended()
        elif isinstance(outcome, Refused):
            self.simulator.log_event(f"{self} may not append: error {outcome.error}")
            self.shard.refused(outcome.error)
        else:
            self.simulator.log_event(f"{self} does not know what became of an append")
            self.shard.outcome_unknown()

    def _pause(self) -> None:
        self._busy = True
        self._asking += 1
        self.simulator.later(self.simulator.random.choice((20, 20, 100)), self._resume, self._asking)

    def _resume(self, number: int) -> None:
        if number == self._asking and self._busy:
            self._busy = False
            self._step()

    def _answer(self) -> None:
        for ticket, error, reply in self.shard.take_answers():
            if self.dead:
                return
            self._answers_to(self, ticket, error, reply)
