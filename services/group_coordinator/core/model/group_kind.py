"""The kinds of groups: their names, and the interface to any of them for offsets, deletions and descriptions."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from libs.coordinator.core.timers import TimerKey
from libs.wire.errors import ErrorCode
from libs.wire.messages import consumer_group_describe, describe_groups
from libs.wire.messages.list_groups import ListedGroup
from libs.wire.messages.offset_commit import OffsetCommitRequest
from services.group_coordinator.core.model.records import Record

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
SIMPLE: Final = "simple"
"""The kind of a group that only has offsets. To clients it is classic, as in Kafka."""

Timers: TypeAlias = Mapping[TimerKey, int | None]

SINCE_COMMIT: Final = -1
"""Instead of a time: each offset ages from its own commit on."""
NOT_FOUND_FROM: Final = 6
"""Version of DescribeGroups from which what is no classic group is an error (KIP-1043). Before, it is Dead."""
DEAD: Final = "Dead"


class HasState(Protocol):
    @property
    def state(self) -> Any:
        """Its value is Kafka's name."""
        ...


G = TypeVar("G", bound=HasState)


class Kind(Protocol):
    """All groups of one kind. `name` is the name of a group of this kind."""

    def commit_error(self, name: str, request: OffsetCommitRequest, version: int) -> ErrorCode:
        """The error of OffsetCommit, for all its partitions."""
        ...

    def transactional_commit_error(self, name: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """The error of TxnOffsetCommit, for all its partitions. Before version 3 it names no member, and any may commit."""
        ...

    def commit_timers(self, name: str, request: OffsetCommitRequest, now_ms: int) -> Timers:
        """Session timers after an accepted commit."""
        ...

    def fetch_error(self, name: str, member_id: str | None, epoch: int) -> ErrorCode:
        """The error of OffsetFetch, from version 9 on."""
        ...

    def offset_deletion_error(self, name: str) -> ErrorCode:
        """The error of OffsetDelete, for the whole request."""
        ...

    def deletion_error(self, name: str) -> ErrorCode:
        """The error of DeleteGroups. NONE if the group has no members."""
        ...

    def subscription(self, name: str) -> Container[str]:
        """Topics that members read. Their offsets are neither deleted nor expired."""
        ...

    def expiry_base_ms(self, name: str) -> int | None:
        """The time in ms from which offsets age, or SINCE_COMMIT. None: they do not age."""
        ...

    def tombstones(self, name: str) -> Sequence[Record]:
        """Tombstones of all the group's records but the offsets."""
        ...

    def describe_as_classic_group(self, name: str, version: int) -> describe_groups.DescribedGroup:
        """The group in DescribeGroups, which knows classic groups only."""
        ...

    def describe_as_consumer_group(self, name: str, version: int) -> consumer_group_describe.DescribedGroup:
        """The group in ConsumerGroupDescribe, which knows consumer groups only."""
        ...


def not_a_classic_group(name: str, why: str, version: int) -> describe_groups.DescribedGroup:
    if version < NOT_FOUND_FROM:
        return describe_groups.DescribedGroup(group_id=name, group_state=DEAD)
    return describe_groups.DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, why, group_id=name, group_state=DEAD)


def not_a_consumer_group(name: str, why: str) -> consumer_group_describe.DescribedGroup:
    return consumer_group_describe.DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, why, group_id=name)


def list_where(
    kind: str, groups: Iterable[G], listed: Callable[[G], ListedGroup], states: list[str], kinds: list[str]
) -> list[ListedGroup]:
    """Groups of one kind that pass the filters of ListGroups. `listed` makes a group's entry."""
    if not accepts(kinds, kind):
        return []
    accepted = {state.lower() for state in states}
    return [listed(group) for group in groups if not accepted or group.state.value.lower() in accepted]


def accepts(wanted: list[str], value: str) -> bool:
    """Whether a filter of ListGroups accepts `value`. An empty filter accepts all; case does not count."""
    return not wanted or value.lower() in {each.lower() for each in wanted}
