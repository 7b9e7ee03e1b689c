"""The members of one group, and what is true of all of them together."""

from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from tests.compat.clients.groups.client_kinds import SESSION_MS, Kind
from tests.compat.clients.groups.member import TIMEOUT_S, Member, Partition
from tests.compat.clients.groups.offsets import GroupAdmin
from tests.support.polling import eventually


class GroupMembers:
    """Use as a context manager: at the end nobody is left."""

    def __init__(self, bootstrap: str, admin: GroupAdmin, group: str, directory: Path) -> None:
        self.group = group
        self.members: list[Member] = []
        self._bootstrap = bootstrap
        self._admin = admin
        self.directory = directory
        self._left = ExitStack()

    def join(
        self,
        kind: Kind,
        topic: str | None = None,
        *,
        pattern: str | None = None,
        instance: str | None = None,
        session_ms: int = SESSION_MS,
    ) -> Member:
        """Returns at once."""
        directory = self.directory / f"member-{len(self.members)}"
        directory.mkdir(parents=True)
        named = {"topic": topic, "pattern": pattern, "group-instance-id": instance}
        arguments = ["--bootstrap-server", self._bootstrap, "--group-id", self.group]
        arguments += [part for name, value in named.items() if value is not None for part in (f"--{name}", value)]
        member = kind.start(directory, arguments, session_ms=session_ms)
        self._left.callback(member.close)
        self.members.append(member)
        return member

    def until_shared(self, members: list[Member], partitions: set[Partition], within_s: float = TIMEOUT_S) -> None:
        """Waits until each member has partitions, no two members have the same one, and together they have all."""

        def is_shared() -> bool:
            held = Counter(partition for member in members for partition in tuple(member.owned))
            return all(member.owned for member in members) and held == Counter(partitions)

        try:
            eventually(is_shared, within_s)
        except AssertionError as error:
            raise AssertionError("\n\n".join([str(error), *(member.story() for member in members)])) from None

    def until_read(self, ends: dict[Partition, int], within_s: float = TIMEOUT_S) -> None:
        """Waits until all members together, the dead ones too, have read every offset at least once."""
        due = sum(ends.values())
        try:
            eventually(lambda: len(self.read()) >= due, within_s)
        except AssertionError as error:
            missing = sorted(set(_all(ends)) - set(self.read()))[:20]
            stories = (member.story() for member in self.members)
            raise AssertionError("\n\n".join([str(error), f"nobody read {missing}", *stories])) from None

    def until_committed(self, ends: dict[Partition, int], within_s: float = TIMEOUT_S) -> None:
        """Waits until the coordinator has all offsets committed."""
        try:
            eventually(lambda: self.committed() == ends, within_s)
        except AssertionError:
            wrong = {where: (offset, ends.get(where)) for where, offset in self.committed().items() if offset != ends.get(where)}
            missing = sorted(set(ends) - set(self.committed()))
            stories = (member.story() for member in self.members)
            raise AssertionError("\n\n".join([f"committed and due: {wrong}, not committed: {missing}", *stories])) from None

    def committed(self) -> dict[Partition, int]:
        return self._admin.committed(self.group)

    def read(self) -> Counter[tuple[Partition, int]]:
        return sum((Counter(member.read) for member in self.members), Counter())

    def read_again(self) -> set[tuple[Partition, int]]:
        """The offsets that were read more than once though the first reader had time to commit them.

        Java's consumer goes on reading in a cooperative rebalance, and is told to commit later; VerifiableConsumer does not.
        """
        excused = set[tuple[Partition, int]]().union(*(member.uncommitted for member in self.members))
        return {where for where, times in self.read().items() if times > 1} - excused

    def assert_read_once(self, ends: dict[Partition, int]) -> None:
        """Every record, by one of them, once."""
        read, due, again = self.read(), set(_all(ends)), self.read_again()
        assert set(read) == due, f"nobody read {sorted(due - set(read))[:20]}; not there: {sorted(set(read) - due)[:20]}"
        assert not again, f"read again: {sorted(again)[:20]}\n" + "\n\n".join(member.story() for member in self.members)

    def close(self) -> None:
        self._left.close()

    def __enter__(self) -> "GroupMembers":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _all(ends: dict[Partition, int]) -> list[tuple[Partition, int]]:
    return [(partition, offset) for partition, end in ends.items() for offset in range(end)]
