"""Groups for operators: `/debug/groups` and `/debug/groups/NAME` of the admin port, and the numbers of groups by state.

The views show decided state, whose last records may not be committed yet. Shards that are not served are omitted.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from functools import partial
from heapq import nsmallest
from itertools import chain, islice
from operator import itemgetter
from typing import Any, Final

from libs.clock import Clock
from libs.cluster.records import GROUP_COORDINATOR
from libs.cluster.shard_owners import Owner
from libs.coordinator.core.observed_machine import ObservedMachine
from libs.coordinator.core.shard_hashing import shard_of
from libs.coordinator.shards.shard_set import ShardSet
from libs.runtime.admin import NotShown
from services.group_coordinator.core.group_machine import GroupMachine
from services.group_coordinator.core.model.group_kind import CLASSIC, CONSUMER, SIMPLE
from services.group_coordinator.core.model.records import OffsetCommitted
from services.group_coordinator.core.model.requests import Reply, RequestEvent
from services.group_coordinator.core.model.topics_view import TopicsView
from services.group_coordinator.core.simple.simple_groups import STATE
from services.group_coordinator.introspection import classic_view, consumer_view
from services.group_coordinator.lag.lag_meter import Lag, LagMeter

LISTED_MAX: Final = 500
LOOKED_AT_ONCE: Final = 2_000
"""The most groups at which one turn of a view looks: 1 ms."""
NOT_COORDINATED: Final = {"kind": SIMPLE, "state": STATE.value, "members": 0}

Place = tuple[str, int]
"""A group's name, and where it is: its shard, or the index of a table."""


class GroupViews:
    """The views of all groups here. `owner_of` returns the owner of a shard, as the image names it."""

    def __init__(
        self,
        shards: ShardSet[RequestEvent, Reply, Any],
        owner_of: Callable[[int], str],
        topics: Callable[[], TopicsView],
        lag: LagMeter,
        clock: Clock,
    ) -> None:
        self._shards = shards
        self._owner_of = owner_of
        self._topics = topics
        self._lag = lag
        self._clock = clock

    async def groups(self) -> dict[str, Any]:
        """`{"count", "states": {kind: {state: count}}, "groups": {name: brief}}`, the first `LISTED_MAX` by name. It looks at
        some groups in each turn. A group that comes meanwhile may be left out."""
        shown: list[Place] = []
        for shard, machine in dict(self._machines()).items():
            async for names in _by_turns(machine.names()):
                shown = _first_of(shown, ((name, shard) for name in names if machine.has(name)), LISTED_MAX)
        machines = dict(self._machines())
        states: dict[str, Counter[str]] = {}
        for (kind, state), count in self.states().items():
            states.setdefault(kind, Counter())[state] = count
        left = [(name, shard) for name, shard in shown if shard in machines and machines[shard].has(name)]
        return {
            "count": sum(counts.total() for counts in states.values()),
            "states": states,
            "groups": {name: {"shard": shard, **self._brief(machines[shard], name)} for name, shard in left},
        }

    async def group(self, name: str) -> dict[str, Any] | NotShown:
        """The view of one group, as docs/groups.md describes it. For a group that is missing, or not served here, it says which,
        and where it is served."""
        if not self._shards.count:
            return NotShown(404, {"error": "there are no groups yet", "group": name})
        shard = shard_of(name, self._shards.count)
        machine = dict(self._machines()).get(shard)
        if machine is None:
            return self._elsewhere(name, shard)
        if not machine.has(name):
            return NotShown(404, {"error": f"there is no group {name}", "group": name, "shard": shard})
        offsets = list(machine.offsets.table.of(name))
        seen = {"group": name, "shard": shard, **self._brief(machine, name), **self._details(machine, name, shard)}
        pending = _pending(machine, name)
        lags = await self._lag.of(offsets)
        return {**seen, **_behind(offsets, lags), "pending_offsets": pending}

    def _elsewhere(self, name: str, shard: int) -> NotShown:
        """The answer for a group of another owner's shard. Only that owner knows whether the group exists."""
        driver, owner = self._shards.owned.get(shard), self._owner_of(shard)
        where = {"group": name, "shard": shard, "owner": owner or None}
        if driver is not None:
            error = f"this process owns shard {shard}, and does not serve it yet"
            return NotShown(503, {"error": error, **where, "ask": None, "shard_state_here": driver.state.value})
        named = Owner.named(owner)
        if named is None:
            return NotShown(503, {"error": f"nobody owns shard {shard} now", **where, "ask": None})
        ask = f"{GROUP_COORDINATOR}-{named.node_id}"
        return NotShown(421, {"error": f"this process does not own shard {shard}: ask {ask}", **where, "ask": ask})

    def states(self) -> Counter[tuple[str, str]]:
        """The numbers of groups by kind and state."""
        totals: Counter[tuple[str, str]] = Counter()
        for _, machine in self._machines():
            totals.update(machine.counts.states)
        return totals

    def members(self) -> Counter[str]:
        """The numbers of members by kind of group."""
        totals = Counter({CLASSIC: 0, CONSUMER: 0})
        for _, machine in self._machines():
            totals.update(machine.counts.members)
        return totals

    async def offsets(self, at_most: int) -> tuple[list[OffsetCommitted], int]:
        """The first `at_most` committed offsets by group, topic and partition, and the number of the others. It looks at some
        groups in each turn."""
        tables = [machine.offsets.table for _, machine in self._machines()]
        groups: list[Place] = []
        total = 0
        for index, table in enumerate(tables):
            async for names in _by_turns([[*table]]):
                total += sum(map(table.size, names))
                groups = _first_of(groups, ((name, index) for name in names), at_most)
        committed: list[OffsetCommitted] = []
        for name, index in groups:
            if len(committed) < at_most:
                committed += sorted(tables[index].of(name), key=_place)
        return committed[:at_most], max(total - min(len(committed), at_most), 0)

    def _machines(self) -> Iterator[tuple[int, GroupMachine]]:
        for index, driver in self._shards.serving.items():
            observed = driver.machine
            if isinstance(observed, ObservedMachine) and isinstance(observed.machine, GroupMachine):
                yield index, observed.machine

    def _brief(self, machine: GroupMachine, name: str) -> dict[str, Any]:
        now_ms, seen = self._clock.wall_ms(), NOT_COORDINATED
        if (classic := machine.classic.groups.get(name)) is not None:
            seen = classic_view.brief(classic, now_ms)
        elif (consumer := machine.consumer.groups.get(name)) is not None:
            seen = consumer_view.brief(consumer, now_ms)
        return {**seen, "offsets": machine.offsets.table.size(name)}

    def _details(self, machine: GroupMachine, name: str, shard: int) -> dict[str, Any]:
        deadlines = self._shards.owned[shard].shard.timers.deadline
        if (classic := machine.classic.groups.get(name)) is not None:
            return classic_view.details(classic, deadlines)
        if (consumer := machine.consumer.groups.get(name)) is not None:
            return consumer_view.details(consumer, self._topics(), partial(machine.consumer.session_ms, name), deadlines)
        return {"members": []}


def _first_of(first: list[Place], more: Iterable[Place], at_most: int) -> list[Place]:
    """The first `at_most` of both by name, in order and each once. `first` was made so, too."""
    last = first[-1] if first and len(first) == at_most else None
    before = {place for place in more if last is None or place < last}
    return sorted(before.union(first))[:at_most] if before else first


async def _by_turns(names: Sequence[list[str]]) -> AsyncIterator[list[str]]:
    """At most `LOOKED_AT_ONCE` of them in each turn of the loop."""
    rest = chain.from_iterable(names)
    while some := list(islice(rest, LOOKED_AT_ONCE)):
        yield some
        await asyncio.sleep(0)


def _place(committed: OffsetCommitted) -> tuple[str, int]:
    return committed.topic, committed.partition


def _behind(offsets: list[OffsetCommitted], lags: dict[tuple[str, int], Lag]) -> dict[str, Any]:
    rows = [_row(each, lags[each.topic, each.partition]) for each in sorted(offsets, key=_place)]
    known = [lag for lag in lags.values() if lag.records is not None]
    return {
        "lag": {
            "records": sum(lag.records or 0 for lag in known),
            "seconds": max((lag.seconds for lag in known if lag.seconds is not None), default=None),
            "partitions_unknown": len(lags) - len(known),
        },
        "offsets": rows,
    }


def _pending(machine: GroupMachine, name: str) -> list[dict[str, Any]]:
    """The first partitions whose offsets are part of transactions under way, with the producers of these."""
    shown = nsmallest(LISTED_MAX, machine.offsets.pending.of(name).items(), key=itemgetter(0))
    return [{"topic": topic, "partition": index, "producer_ids": sorted(producers)} for (topic, index), producers in shown]


def _row(committed: OffsetCommitted, lag: Lag) -> dict[str, Any]:
    return {
        "topic": committed.topic,
        "partition": committed.partition,
        "committed": committed.offset,
        "leader_epoch": committed.leader_epoch if committed.leader_epoch >= 0 else None,
        "metadata": committed.metadata,
        "committed_ms": committed.commit_ms if committed.commit_ms >= 0 else None,
        "log_start": lag.start if not lag.error else None,
        "log_end": lag.end if not lag.error else None,
        "lag_records": lag.records,
        "lag_seconds": lag.seconds,
        "error": lag.error,
    }
