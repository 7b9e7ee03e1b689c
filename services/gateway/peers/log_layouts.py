"""The log layouts that leaders sent lately: where committed records stand in the files of partitions that are read out of order.

A sequential reader needs none of this (`sequential_fetch_cache.py`). A reader that jumps, by offset or by timestamp, would cost
its leader a request each time. After a few jumps the gateway asks for the partition's log layout instead. It searches the files
by itself while the layout is fresh. ADR 13 says why that is correct.
"""

from bisect import bisect_right
from collections.abc import Callable
from functools import partial

from libs.rpc.client.rpc_client import Response
from libs.rpc.contracts.log_layout import LOG_LAYOUT, LogLayoutReply
from libs.rpc.messages.errors import ContractError, Disconnected, Overloaded
from libs.rpc.messages.schema import unpack
from services.gateway.core.routing import PartitionRoute
from services.gateway.core.sequential_reads import FRESH_S
from services.gateway.peers.storage_nodes import Nodes, StorageNode

JUMPS_MIN = 3
"""The number of jumps within `FRESH_S` before a layout is requested. A layout costs its leader as much as two or three
fetches."""
PAUSE_S = 1.0
"""The pause before the next request to a leader that had no layout."""
ANSWER_S_MAX = 1.0
REMEMBERED_MAX = 1024

Key = tuple[bytes, int]
"""(topic id, partition index)."""


class KnownLayout:
    """A log layout from a leader. `uses` counts its lookups, which tell whether it is worth a new request."""

    __slots__ = ("_bases", "incarnation", "layout", "node", "requested_at", "route", "uses")

    def __init__(
        self, layout: LogLayoutReply, node: StorageNode, incarnation: int, route: PartitionRoute, requested_at: float
    ) -> None:
        self.layout = layout
        self.node = node
        self.incarnation = incarnation
        self.route = route
        self.requested_at = requested_at
        self.uses = 0
        self._bases = [segment.base_offset for segment in layout.segments]

    def slot_for(self, offset: int) -> int:
        """The slot of the segment that would hold `offset`; -1 if that segment is gone."""
        return bisect_right(self._bases, offset) - 1

    def end_of(self, slot: int) -> int:
        """An offset beyond the batches of that segment."""
        return self._bases[slot + 1] if slot + 1 < len(self._bases) else self.layout.high_watermark


class LogLayouts:
    """The known log layouts, by partition."""

    def __init__(self, nodes: Nodes, now: Callable[[], float]) -> None:
        self._nodes = nodes
        self._now = now
        self._known_layouts: dict[Key, KnownLayout] = {}
        self._jumps: dict[Key, tuple[int, float]] = {}  # by partition: the number of jumps, and the time of the first
        self._requested: set[Key] = set()

    @property
    def count(self) -> int:
        """The number of partitions whose log layout is known."""
        return len(self._known_layouts)

    def fresh(self, key: Key, route: PartitionRoute) -> KnownLayout | None:
        """A log layout that is recent enough for this request, or None."""
        known_layout = self._known_layouts.get(key)
        if known_layout is None:
            return None
        node, age_s = known_layout.node, self._now() - known_layout.requested_at
        if (
            self._nodes.ready(route.leader) is not node
            or node.incarnation != known_layout.incarnation
            or known_layout.route != route
        ):
            del self._known_layouts[key]
            return None
        known_layout.uses += 1
        if 2 * age_s > FRESH_S and known_layout.uses > JUMPS_MIN and key not in self._requested:
            self._ask(key, route, node)
        if age_s < FRESH_S:
            return known_layout
        return None

    def note_jump(self, key: Key, route: PartitionRoute) -> None:
        """Notes that a reader asked the leader for records out of sequence."""
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
        if node is not None and node.same_host and key not in self._requested:
            self._ask(key, route, node)

    def _ask(self, key: Key, route: PartitionRoute, node: StorageNode) -> None:
        on_outcome = partial(self._on_outcome, key, route, node, self._now())
        try:
            node.client.send(LOG_LAYOUT, list(key), (), on_outcome, timeout_s=ANSWER_S_MAX)
        except (Overloaded, Disconnected):
            return
        self._requested.add(key)

    def _on_outcome(
        self, key: Key, route: PartitionRoute, node: StorageNode, requested_at: float, outcome: Response | Exception
    ) -> None:
        self._requested.discard(key)
        layout: LogLayoutReply | None = None
        if isinstance(outcome, Response):
            try:
                layout = unpack(LogLayoutReply, outcome.body)
            except ContractError:
                layout = None
        if layout is None or layout.error or not layout.segments or layout.leader_epoch != route.leader_epoch:
            self._known_layouts.pop(key, None)
            self._jumps[key] = 0, self._now() + PAUSE_S
            return
        if len(self._known_layouts) >= REMEMBERED_MAX:
            self._known_layouts.clear()
        self._known_layouts[key] = KnownLayout(layout, node, node.incarnation, route, requested_at)
