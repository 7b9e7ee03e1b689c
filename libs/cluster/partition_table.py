"""One topic's partition states and their revisions, as stored."""

from typing import NamedTuple

from libs.cluster.records import PartitionState
from libs.lean_dataclass import dataclass


class Versions(NamedTuple):
    """A key's create and modification revisions, for guarded writes."""

    created: int
    modified: int


ABSENT = Versions(0, 0)


@dataclass(frozen=True, slots=True)
class TopicPartitions:
    """The partitions of one topic, as two tuples by partition index. The last state is never None."""

    states: tuple[PartitionState | None, ...] = ()
    versions: tuple[Versions, ...] = ()

    def state(self, index: int) -> PartitionState | None:
        return self.states[index] if 0 <= index < len(self.states) else None

    def version(self, index: int) -> Versions:
        return self.versions[index] if 0 <= index < len(self.versions) else ABSENT


class TopicPartitionsEdit:
    """Changes to the partitions of one topic, gathered so that many cost one copy."""

    __slots__ = ("_states", "_versions")

    def __init__(self, base: TopicPartitions) -> None:
        self._states = list(base.states)
        self._versions = list(base.versions)

    def put(self, index: int, state: PartitionState, versions: Versions) -> None:
        missing = index + 1 - len(self._states)
        if missing > 0:
            self._states.extend([None] * missing)
            self._versions.extend([ABSENT] * missing)
        self._states[index] = state
        self._versions[index] = versions

    def delete(self, index: int) -> None:
        if index >= len(self._states):
            return
        self._states[index] = None
        self._versions[index] = ABSENT
        while self._states and self._states[-1] is None:
            self._states.pop()
            self._versions.pop()

    def finish(self) -> TopicPartitions | None:
        """None when no partition is left."""
        return TopicPartitions(tuple(self._states), tuple(self._versions)) if self._states else None
