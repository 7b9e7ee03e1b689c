"""A follower's end of a pull session: what the leader was told, and what the next pull must therefore name."""

from collections.abc import Callable, Iterable, Mapping

from libs.rpc.contracts.replication import PulledFrom

Key = tuple[bytes, int]


class PullSession:
    """`next_pull`, then `answered`; or `begin_anew`, whenever it is not sure what the leader remembers."""

    __slots__ = ("_changed", "_dropped", "_new_number", "_told", "number", "sequence")

    def __init__(self, new_number: Callable[[], int]) -> None:
        """`new_number`: rising, over all sessions of this process."""
        self._new_number = new_number
        self._told: dict[Key, tuple[int, PulledFrom]] = {}  # in the pull of which sequence
        self._changed: dict[Key, None] = {}
        self._dropped: dict[Key, None] = {}
        self.number = new_number()
        self.sequence = 0

    def begin_anew(self) -> None:
        """The next pull begins another session, which names everything."""
        self.number = self._new_number()
        self.sequence = 0
        self._told.clear()
        self._changed.clear()
        self._dropped.clear()

    @property
    def is_new(self) -> bool:
        return self.sequence == 0

    def name(self, key: Key) -> None:
        """The next pull names it if anything of it has changed, or in any case if the leader had told something of it."""
        self._changed[key] = None

    def name_anyway(self, key: Key) -> None:
        """The leader sends nothing more of it until it is named again."""
        self._told.pop(key, None)
        self._changed[key] = None

    def drop(self, key: Key) -> None:
        self._changed.pop(key, None)
        if self._told.pop(key, None) is not None or self.sequence:
            self._dropped[key] = None

    def next_pull(
        self, standing: Mapping[Key, PulledFrom], *, unanswered: bool = False
    ) -> tuple[int, tuple[PulledFrom, ...], tuple[Key, ...]]:
        """(sequence, partitions, dropped). `standing`: of all in a new session, else at least of those that were named.

        `unanswered`: an earlier pull may have been answered, and the answer be on its way. What the leader was told is not told
        anew until then: it would answer twice, and take what the second answer says for known, which is an answer to nothing.
        """
        keys: Iterable[Key] = standing if self.is_new else self._changed
        partitions = []
        later: dict[Key, None] = {}
        for key in keys:
            where, told = standing.get(key), self._told.get(key)
            if where is None or (told is not None and told[1] == where):
                continue
            if told is not None and unanswered:
                later[key] = None
                continue
            partitions.append(where)
            self._told[key] = self.sequence, where
            self._dropped.pop(key, None)
        dropped = tuple(self._dropped) if not self.is_new else ()
        self._changed = later
        self._dropped.clear()
        sequence = self.sequence
        self.sequence += 1
        return sequence, tuple(partitions), dropped

    def named(self) -> tuple[Key, ...]:
        """What the next pull would have to look at, if the session goes on."""
        return tuple(self._changed)

    def asked(self, key: Key, sequence: int) -> PulledFrom | None:
        """What the answer to the pull of that sequence is an answer to. None: to nothing that still counts (KAFKA-13207), or to
        what was asked before the leader was told anew. The log may be another by then."""
        told = self._told.get(key)
        return told[1] if told is not None and told[0] <= sequence else None
