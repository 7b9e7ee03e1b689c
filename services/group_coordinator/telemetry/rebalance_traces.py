"""A trace for each rebalance that is slow or sampled: which member was waited for, and how long each waited.

    rebalance readers             from its begin until the group is stable or empty
      join                        until the members' JoinGroup requests are answered
        JoinGroup member-1        from its arrival until its answer: the last to arrive let the others wait
      sync                        until each member that asked has its assignment
        SyncGroup member-1

It is a trace of its own, since it belongs to no member's request. Spans of members link to their requests' traces. A group of the
consumer protocol has no requests that wait, so its trace has the root alone, with the members that were removed.
"""

from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial
from typing import Final

from libs.lean_dataclass import dataclass
from libs.telemetry.tracing import conventions
from libs.telemetry.tracing.ids import random_context
from libs.telemetry.tracing.recorder import SpanRecorder
from libs.telemetry.tracing.sampling import Reason
from libs.telemetry.tracing.span import AttributeValue, Link, SpanEvent, SpanKind
from libs.telemetry.tracing.span_tree import ATTRIBUTE_CHARS_MAX, SpanTree
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.errors import error_name
from services.group_coordinator.core.model.group_events import (
    GroupDeleted,
    GroupEvent,
    MemberRemoved,
    ProtocolChanged,
    RebalanceBegan,
    RebalanceEnded,
)
from services.group_coordinator.protocol.member_waits import MemberWait

GROUPS_MAX: Final = 256
"""The rebalances in progress that are followed. The oldest is forgotten for another."""
WAITS_MAX: Final = 64
"""The requests of one rebalance that its trace shows."""
REMOVALS_MAX: Final = 16


@dataclass(slots=True)
class _Rebalance:
    began: RebalanceBegan
    begun_at: float
    ended_at: float = 0.0
    begun_again: int = 0
    """How often it began anew before it ended, since a member came or went."""
    waits: list[MemberWait] = field(default_factory=list)
    removals: list[tuple[float, MemberRemoved]] = field(default_factory=list)


class RebalanceTraces:
    """The rebalances of one process's groups. `now` is the loop's time. `soon` calls after the answers of this turn have left."""

    def __init__(self, recorder: SpanRecorder, now: Callable[[], float], soon: Callable[[Callable[[], None]], object]) -> None:
        self._recorder = recorder
        self._now = now
        self._soon = soon
        self._open: dict[str, _Rebalance] = {}

    def observe(self, events: Sequence[GroupEvent]) -> None:
        """Follows committed events."""
        for event in events:
            match event:
                case RebalanceBegan():
                    self._began(event)
                case RebalanceEnded() if (rebalance := self._open.get(event.group)) is not None:
                    rebalance.ended_at = self._now()
                    self._soon(partial(self._ended, event, rebalance))  # members hear of it in this turn, after this
                case MemberRemoved() if (rebalance := self._open.get(event.group)) is not None:
                    if len(rebalance.removals) < REMOVALS_MAX:
                        rebalance.removals.append((self._now(), event))
                case GroupDeleted() | ProtocolChanged():
                    self._open.pop(event.group, None)
                case _:
                    pass

    def waited(self, wait: MemberWait) -> None:
        """Notes a JoinGroup or SyncGroup that was answered."""
        rebalance = self._open.get(wait.group)
        if rebalance is not None and len(rebalance.waits) < WAITS_MAX:
            member_id, client_id = wait.member_id[:ATTRIBUTE_CHARS_MAX], wait.client_id[:ATTRIBUTE_CHARS_MAX]
            rebalance.waits.append(wait._replace(member_id=member_id, client_id=client_id))

    def _began(self, event: RebalanceBegan) -> None:
        former = self._open.pop(event.group, None)
        if former is not None and event.again:
            former.begun_again += 1
            self._open[event.group] = former
            return
        if len(self._open) >= GROUPS_MAX:
            del self._open[next(iter(self._open))]
        self._open[event.group] = _Rebalance(event, self._now())

    def _ended(self, event: RebalanceEnded, rebalance: _Rebalance) -> None:
        if self._open.get(event.group) is rebalance:
            del self._open[event.group]
        recorder = self._recorder
        slow = rebalance.ended_at - rebalance.begun_at > recorder.rules.slow_s(ApiKey.JOIN_GROUP)
        if not (slow or recorder.sampler.draws()) or not recorder.admits(rebalance.ended_at, in_advance=not slow):
            return
        context = random_context(recorder.random)
        tree = recorder.tree(context, None)
        group = event.group[:ATTRIBUTE_CHARS_MAX]
        attributes: dict[str, AttributeValue] = {
            conventions.MESSAGING_SYSTEM: conventions.KAFKA,
            conventions.CONSUMER_GROUP_NAME: group,
            conventions.GROUP_KIND: event.kind,
            conventions.GROUP_GENERATION: event.generation,
            conventions.GROUP_MEMBERS: event.members,
            conventions.REBALANCE_REASON: rebalance.began.reason[:ATTRIBUTE_CHARS_MAX],
            conventions.BEGUN_AGAIN: rebalance.begun_again,
            conventions.REASON: Reason.SLOW if slow else Reason.FRACTION,
        }
        removals = [SpanEvent("member removed", tree.wall_ns(at), _removed(each)) for at, each in rebalance.removals]
        tree.root(
            f"rebalance {group}", rebalance.begun_at, rebalance.ended_at, attributes, kind=SpanKind.INTERNAL, events=removals
        )
        joins = [wait for wait in rebalance.waits if wait.api_key == ApiKey.JOIN_GROUP]
        syncs = [wait for wait in rebalance.waits if wait.api_key == ApiKey.SYNC_GROUP]
        joined_at = max((wait.answered_at for wait in joins), default=rebalance.begun_at)
        for name, waits, begun_at, ended_at in (
            ("join", joins, rebalance.begun_at, joined_at),
            ("sync", syncs, joined_at, max((wait.answered_at for wait in syncs), default=joined_at)),
        ):
            if waits:
                _add_waits(tree, tree.child(name, begun_at, ended_at), waits)
        recorder.record(tree.spans)


def _add_waits(tree: SpanTree, parent_id: int, waits: Sequence[MemberWait]) -> None:
    for wait in waits:
        tree.child(
            f"{APIS[wait.api_key].name} {wait.member_id}",
            wait.arrived_at,
            wait.answered_at,
            {conventions.CLIENT_ID: wait.client_id},
            parent_id=parent_id,
            error=error_name(wait.error) if wait.error else None,
            links=[Link(wait.span)] if wait.span is not None else (),
        )


def _removed(each: MemberRemoved) -> dict[str, AttributeValue]:
    return {conventions.GROUP_MEMBER: each.member_id[:ATTRIBUTE_CHARS_MAX], conventions.REASON_OF_REMOVAL: each.why}
