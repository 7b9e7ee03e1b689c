"""The tables of offsets after a log, and what a reader of the whole log expects of them."""

from dataclasses import dataclass

from libs.coordinator.core.tables import Journal
from services.group_coordinator.core.model.records import OffsetCommitted, OffsetPending, OffsetRemoved, TransactionEnded
from services.group_coordinator.core.offsets.offset_table import OffsetTable
from services.group_coordinator.core.offsets.pending_offsets import PendingOffsets

Logged = OffsetCommitted | OffsetPending | OffsetRemoved | TransactionEnded
Key = tuple[str, str, int]
KEYS = [(group, topic, 0) for group in "gh" for topic in "tu"]


def key_of(record: OffsetCommitted | OffsetRemoved) -> Key:
    return record.group, record.topic, record.partition


@dataclass
class Replayed:
    """The tables of a coordinator."""

    journal: Journal
    offsets: OffsetTable
    pending: PendingOffsets

    def replay(self, log: list[Logged]) -> None:
        for record in log:
            match record:
                case OffsetCommitted():
                    self.offsets.put(record)
                    self.pending.replace(*key_of(record))
                case OffsetRemoved():
                    self.offsets.remove(record)
                    self.pending.replace(*key_of(record))
                case OffsetPending():
                    self.pending.put(record)
                case TransactionEnded():
                    for each in self.pending.end(record):
                        self.offsets.put(each)

    @property
    def seen(self) -> tuple[dict[Key, int], set[Key], set[int]]:
        """Committed offsets, unstable partitions, and producers with open transactions."""
        found = {key: self.offsets.get(*key) for key in KEYS}
        unstable = {key for key in KEYS if self.pending.is_pending(*key)}
        assert unstable == {(group, *each) for group in "gh" for each in self.pending.of(group)}
        assert {group for group in "gh" if group in self.pending} == {group for group, _, _ in unstable}
        offsets = {key: offset.offset for key, offset in found.items() if offset is not None}
        return offsets, unstable, {producer_id for producer_id in (1, 2, 3) if self.pending.epoch_of(producer_id) is not None}


def expected(log: list[Logged]) -> tuple[dict[Key, int], set[Key], set[int]]:
    """As Kafka has it: of all that took effect for a partition, what stands last in the log counts."""
    effects: dict[Key, tuple[int, int | None]] = {}
    pending: dict[int, dict[Key, tuple[int, int]]] = {}

    def take_effect(key: Key, place: int, offset: int | None) -> None:
        if key not in effects or effects[key][0] < place:
            effects[key] = place, offset

    for place, record in enumerate(log):
        match record:
            case OffsetCommitted():
                take_effect(key_of(record), place, record.offset)
            case OffsetRemoved():
                take_effect(key_of(record), place, None)
            case OffsetPending(producer_id, _, offset):
                pending.setdefault(producer_id, {})[key_of(offset)] = place, offset.offset
            case TransactionEnded(producer_id, _, commits):
                for key, (written, number) in pending.pop(producer_id, {}).items():
                    if commits:
                        take_effect(key, written, number)
    unstable = {
        key
        for offsets in pending.values()
        for key, (place, _) in offsets.items()
        if key not in effects or place > effects[key][0]
    }
    return {key: offset for key, (_, offset) in effects.items() if offset is not None}, unstable, set(pending)


def fresh() -> Replayed:
    journal = Journal()
    return Replayed(journal, OffsetTable(journal), PendingOffsets(journal))
