"""What leaders told lately of where committed records stand in their files, for partitions that are read here and there.

Whoever reads on asks no one (`read_on.py`). A reader that jumps, by offset or by timestamp, would cost its leader a question each
time; after a few jumps the gateway asks for the partition's outline instead, and searches the files by itself for as long as that
is fresh. ADR 13 tells why that is right.
"""

from bisect import bisect_right
from collections.abc import Callable
from functools import partial

from libs.rpc.client import Response
from libs.rpc.contracts.outline import OUTLINE, OutlineReply, SegmentOutline
from libs.rpc.errors import ContractError, Disconnected, Overloaded
from libs.rpc.schema import unpack
from services.gateway.core.read_on import FRESH_S
from services.gateway.core.routing import PartitionRoute
from services.gateway.nodes import Nodes, StorageNode

JUMPS_MIN = 3
"""Within `FRESH_S`: an outline costs its leader as much as two or three fetches."""
PAUSE_S = 1.0
"""After a leader had none to tell."""
ANSWER_S_MAX = 1.0
REMEMBERED_MAX = 1024

Key = tuple[bytes, int]
"""(topic id, partition index)."""


class Outlined:
    """What a leader told. `uses` since then tell whether it is worth being asked for again."""

    __slots__ = ("_bases", "asked_at", "incarnation", "node", "route", "told", "uses")

    def __init__(self, told: OutlineReply, node: StorageNode, incarnation: int, route: PartitionRoute, asked_at: float) -> None:
        self.told = told
        self.node = node
        self.incarnation = incarnation
        self.route = route
        self.asked_at = asked_at
        self.uses = 0
        self._bases = [segment.base_offset for segment in told.segments]

    def slot_for(self, offset: int) -> int:
        """Of the segment that would hold `offset`; -1 if that is gone."""
        return bisect_right(self._bases, offset) - 1

    def end_of(self, slot: int) -> int:
        """An offset that the segment's batches do not reach."""
        return self._bases[slot + 1] if slot + 1 < len(self._bases) else self.told.high_watermark

    def segments_from(self, offset: int) -> tuple[SegmentOutline, ...]:
        return self.told.segments[max(self.slot_for(offset), 0) :]


class Outlines:
    def __init__(self, nodes: Nodes, now: Callable[[], float]) -> None:
        self._nodes = nodes
        self._now = now
        self._outlined: dict[Key, Outlined] = {}
        self._jumps: dict[Key, tuple[int, float]] = {}  # how many, and since when
        self._asking: set[Key] = set()

    def fresh(self, key: Key, route: PartitionRoute) -> Outlined | None:
        """An outline that may be believed, now and for this request."""
        outlined = self._outlined.get(key)
        if outlined is None:
            return None
        node, age_s = outlined.node, self._now() - outlined.asked_at
        if self._nodes.ready(route.leader) is not node or node.incarnation != outlined.incarnation or outlined.route != route:
            del self._outlined[key]
            return None
        outlined.uses += 1
        if 2 * age_s > FRESH_S and outlined.uses > JUMPS_MIN and key not in self._asking:
            self._ask(key, route, node)
        if age_s < FRESH_S:
            return outlined
        return None

    def jumped(self, key: Key, route: PartitionRoute) -> None:
        """A reader had to ask the leader for something out of sequence."""
        now = self._now()
        count, since = self._jumps.get(key, (0, now))
        if now - since > FRESH_S:
            count, since = 0, now
        count += 1
        if count < JUMPS_MIN or now < since:
            if len(self._jumps) >= REMEMBERED_MAX:
                self._jumps.clear()
            self._jumps[key] = count, since
            return
        self._jumps.pop(key, None)
        node = self._nodes.ready(route.leader)
        if node is not None and node.same_host and key not in self._asking:
            self._ask(key, route, node)

    def _ask(self, key: Key, route: PartitionRoute, node: StorageNode) -> None:
        answer = partial(self._answered, key, route, node, self._now())
        try:
            node.client.send(OUTLINE, list(key), (), answer, timeout_s=ANSWER_S_MAX)
        except (Overloaded, Disconnected):
            return
        self._asking.add(key)

    def _answered(
        self, key: Key, route: PartitionRoute, node: StorageNode, asked_at: float, outcome: Response | Exception
    ) -> None:
        self._asking.discard(key)
        told: OutlineReply | None = None
        if isinstance(outcome, Response):
            try:
                told = unpack(OutlineReply, outcome.body)
            except ContractError:
                told = None
        if told is None or told.error or not told.segments or told.leader_epoch != route.leader_epoch:
            self._outlined.pop(key, None)
            self._jumps[key] = 0, self._now() + PAUSE_S
            return
        if len(self._outlined) >= REMEMBERED_MAX:
            self._outlined.clear()
        self._outlined[key] = Outlined(told, node, node.incarnation, route, asked_at)
