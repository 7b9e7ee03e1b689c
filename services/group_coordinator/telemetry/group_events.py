"""Committed events of one shard's groups: counted as metrics, and written to the log."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final, assert_never

from libs.cluster.health import REBALANCE
from libs.coordinator.process.findings import LOOKED_AT_MAX, MARGIN_MS, finding
from libs.rpc.contracts.controller import Finding
from services.group_coordinator.core.model.group_events import (
    GroupDeleted,
    GroupEvent,
    MemberFenced,
    MemberRemoved,
    OffsetsExpired,
    ProtocolChanged,
    RebalanceBegan,
    RebalanceEnded,
)
from services.group_coordinator.core.model.group_kind import CLASSIC
from services.group_coordinator.telemetry.group_event_log import GroupEventLog
from services.group_coordinator.telemetry.group_meters import GroupMeters

REBALANCE_MS_MAX: Final = 600_000
"""The longest rebalance that is nothing to tell, whatever its members' timeouts are: some clients set them to weeks."""


class GroupEventRecorder:
    def __init__(self, meters: GroupMeters, lines: GroupEventLog) -> None:
        self._meters = meters
        self._write = lines.write
        self._begun: dict[str, tuple[int, int]] = {}
        """Since when a group rebalances, in ms, and its rebalance timeout. The longest first."""

    def overdue(self, now_ms: int) -> Iterator[Finding]:
        """The groups that have been rebalancing for too long, among the longest."""
        for group, (begun_ms, timeout_ms) in islice(self._begun.items(), LOOKED_AT_MAX):
            if now_ms - begun_ms <= MARGIN_MS:
                return
            if now_ms - begun_ms > min(timeout_ms, REBALANCE_MS_MAX) + MARGIN_MS:
                yield finding(REBALANCE, group, begun_ms)

    def oldest_ms(self) -> int | None:
        """When the longest rebalance began. None: no group rebalances."""
        return next(iter(self._begun.values()))[0] if self._begun else None

    def forget_ended(self, rebalances: Callable[[str], bool]) -> None:
        """Forgets groups that do not rebalance any more. A shard that was claimed anew may have read the end of a rebalance in
        its log, so that no event tells it."""
        for group in [group for group in self._begun if not rebalances(group)]:
            del self._begun[group]

    def record(self, events: Sequence[GroupEvent], now_ms: int) -> None:
        """Counts and logs committed events. `now_ms` is the time of the decision."""
        for each in events:
            self._record(each, now_ms)

    def _record(self, each: GroupEvent, now_ms: int) -> None:
        match each:
            case RebalanceBegan():
                self._rebalances(each, now_ms)
            case RebalanceEnded():
                self._rebalanced(each, now_ms)
            case MemberRemoved(group, member_id, instance_id, why):
                self._write("member removed", group, member_id=member_id, **_static(instance_id), why=why)
            case MemberFenced(group, member_id, instance_id, why):
                self._write("member fenced", group, member_id=member_id, **_static(instance_id), why=why)
            case ProtocolChanged(group, before, after, members):
                self._begun.pop(group, None)
                self._write("group changed its protocol", group, before=before, after=after, members=members)
            case GroupDeleted(group, why):
                self._begun.pop(group, None)
                self._write("group deleted", group, why=why)
            case OffsetsExpired(group, old, of_deleted_topics, left):
                self._meters.expired += old + of_deleted_topics
                self._write("offsets expired", group, old=old, of_deleted_topics=of_deleted_topics, left=left)
            case _:
                assert_never(each)

    def _rebalances(self, began: RebalanceBegan, now_ms: int) -> None:
        self._meters.rebalances[began.kind] += 1
        begun_ms, _ = self._begun.get(began.group, (now_ms, 0))
        if not began.again:
            self._begun.pop(began.group, None)
            begun_ms = now_ms
        self._begun[began.group] = begun_ms, began.timeout_ms
        epoch = _epoch(began.kind, began.generation)
        self._write("group rebalances", began.group, kind=began.kind, reason=began.reason, members=began.members, **epoch)

    def _rebalanced(self, ended: RebalanceEnded, now_ms: int) -> None:
        begun_ms, _ = self._begun.pop(ended.group, (now_ms, 0))
        seconds = max(now_ms - begun_ms, 0) / 1000
        self._meters.rebalance_times[ended.kind].observe(seconds)
        event = "group stable" if ended.members else "group empty"
        epoch = _epoch(ended.kind, ended.generation)
        self._write(event, ended.group, kind=ended.kind, members=ended.members, **epoch, seconds=seconds)


def _epoch(kind: str, generation: int) -> dict[str, object]:
    return {"generation" if kind == CLASSIC else "epoch": generation}


def _static(instance_id: str | None) -> dict[str, object]:
    return {} if instance_id is None else {"instance_id": instance_id}
