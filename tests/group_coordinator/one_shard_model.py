"""Faults of a shard's log and its owners, for the models of groups."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from libs.coordinator.core.states import State as ShardState
from tests.group_coordinator.one_shard import OneShard


class OneShardModel(RuleBasedStateMachine):
    """Holds appends, refuses them, or loses them with an unknown outcome. Each model adds the failures of owners."""

    stage: OneShard

    @property
    def has_held(self) -> bool:
        """An append, which may be refused or lost."""
        return self.stage.holds and self.stage.under_way is not None

    @rule()
    def hold(self) -> None:
        self.stage.holds = True

    @precondition(lambda self: self.stage.holds)
    @rule()
    def release(self) -> None:
        self.stage.holds = False
        self.stage.settle()

    @precondition(lambda self: self.has_held)
    @rule(error=st.sampled_from([19, 10]))
    def refuse(self, error: int) -> None:
        self.stage.refuse(error)
        if self.stage.shard.state is not ShardState.SERVING:
            self.stage.load()
        self.stage.settle()
        self.taken_back()

    @precondition(lambda self: self.has_held)
    @rule(stored=st.booleans())
    def lose_sight(self, stored: bool) -> None:
        self.stage.holds = False
        self.stage.lose_sight(stored=stored)
        self.taken_back()

    def taken_back(self) -> None:
        """A decision that was not stored did not happen: a model that remembers what it saw looks again."""
