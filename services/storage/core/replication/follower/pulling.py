"""A follower's end of a pull session: what the leader knows, and what the next pull must therefore name."""

from collections.abc import Callable, Iterable, Mapping

from libs.rpc.contracts.replication import PulledFrom

Key = tuple[bytes, int]


class PullSession:
    """The follower's end of a session: `next_pull`, then `answered`; `restart`, if it is unsure what the leader remembers."""

    __slots__ = ("_changed", "_dropped", "_new_number", "_reported", "number", "round", "sequence")

    def __init__(self, new_number: Callable[[], int]) -> None:
        """`new_number` gives rising numbers, over all sessions of this process."""
        self._new_number = new_number
        self._reported: dict[Key, tuple[int, PulledFrom]] = {}  # with the sequence of the pull that reported it
        self._changed: dict[Key, None] = {}
        self._dropped: dict[Key, None] = {}
        self.number = new_number()
        self.sequence = 0
        self.round = 0
        """The highest round that an answer of this session named."""

    def restart(self) -> None:
        """Begins another session: the next pull names all partitions."""
        self.number = self._new_number()
        self.sequence = self.round = 0
        self._reported.clear()
        self._changed.clear()
        self._dropped.clear()

    @property
    def is_new(self) -> bool:
        return self.sequence == 0

    def name(self, key: Key) -> None:
        """Makes the next pull name the partition, if its position has changed, or if the leader has sent something of it."""
        self._changed[key] = None

    def name_again(self, key: Key) -> None:
        """Makes the next pull name the partition in any case: until then the leader sends nothing more of it."""
        self._reported.pop(key, None)
        self._changed[key] = None

    def drop(self, key: Key) -> None:
        self._changed.pop(key, None)
        if self._reported.pop(key, None) is not None or self.sequence:
            self._dropped[key] = None

    def next_pull(
        self, positions: Mapping[Key, PulledFrom], *, unanswered: bool = False
    ) -> tuple[int, tuple[PulledFrom, ...], tuple[Key, ...]]:
        """(sequence, partitions, dropped). `positions` has all partitions in a new session, else at least those that were named.

        `unanswered`: the answer to an earlier pull may be on its way. A partition that was reported is not reported again until
        then. Else the leader would answer twice, and the follower would take the second answer for one to its new position.
        """
        keys: Iterable[Key] = positions if self.is_new else self._changed
        partitions = []
        deferred: dict[Key, None] = {}
        for key in keys:
            position, reported = positions.get(key), self._reported.get(key)
            if position is None or (reported is not None and reported[1] == position):
                continue
            if reported is not None and unanswered:
                deferred[key] = None
                continue
            partitions.append(position)
            self._reported[key] = self.sequence, position
            self._dropped.pop(key, None)
        dropped = tuple(self._dropped) if not self.is_new else ()
        self._changed = deferred
        self._dropped.clear()
        sequence = self.sequence
        self.sequence += 1
        return sequence, tuple(partitions), dropped

    def named(self) -> tuple[Key, ...]:
        """The partitions that the next pull has to look at, if the session goes on."""
        return tuple(self._changed)

    def reported(self, key: Key, sequence: int) -> PulledFrom | None:
        """The position that the answer to the pull of that sequence belongs to.

        None: the answer does not count any more (KAFKA-13207), or the position was reported again since. The log may have changed
        by then.
        """
        reported = self._reported.get(key)
        return reported[1] if reported is not None and reported[0] <= sequence else None
