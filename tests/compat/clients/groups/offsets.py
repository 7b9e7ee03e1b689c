"""The committed offsets of groups, as an admin client sees and alters them.

kafka-python's: librdkafka 2.16's ends with a segmentation fault when a coordinator that is being loaded answers its OffsetFetch.
"""

from collections.abc import Callable
from typing import TypeVar

from tests.compat.clients.admin import Admin
from tests.compat.clients.groups.member import Partition
from tests.compat.clients.kafka_python import KafkaAdminClient, OffsetAndMetadata, TopicPartition, errors
from tests.support.polling import rounds

T = TypeVar("T")


class GroupAdmin(Admin):
    """Tries again what a coordinator says it will do soon."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._groups = KafkaAdminClient(bootstrap_servers=bootstrap)

    def committed(self, group: str) -> dict[Partition, int]:
        """The committed offsets, by partition."""
        found = _patiently(lambda: self._groups.list_group_offsets([group])[group])
        return {(where.topic, where.partition): committed.offset for where, committed in found.items() if committed.offset >= 0}

    def commit(self, group: str, offsets: dict[Partition, int]) -> None:
        """Commits as a tool does: the group must have no members."""
        named = {TopicPartition(*where): OffsetAndMetadata(offset, "", -1) for where, offset in offsets.items()}
        outcomes = _patiently(lambda: self._groups.alter_group_offsets(group, named))
        assert {outcome.errno for outcome in outcomes.values()} == {0}, outcomes

    def close(self) -> None:
        self._groups.close()
        super().close()


def _patiently(ask: Callable[[], T]) -> T:
    last: Exception | None = None
    for _ in rounds("an answer of the group's coordinator"):
        try:
            return ask()
        except errors.KafkaError as error:
            if not error.retriable:
                raise
            last = error
    raise AssertionError(f"unreachable: rounds() ends by raising, {last!r}")
