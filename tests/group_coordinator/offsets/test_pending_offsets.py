"""Whatever is written, offsets of transactions take effect as a reader of the whole log finds them."""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from libs.coordinator.tables import Journal
from services.group_coordinator.core.model.records import OffsetCommitted, OffsetPending, OffsetRemoved, TransactionEnded
from services.group_coordinator.core.offsets.offset_table import OffsetTable
from services.group_coordinator.core.offsets.pending_offsets import PendingOffsets

Logged = OffsetCommitted | OffsetPending | OffsetRemoved | TransactionEnded
Key = tuple[str, str, int]
KEYS = [(group, topic, 0) for group in "gh" for topic in "tu"]

keys, producer_ids = st.sampled_from(KEYS), st.integers(1, 3)
committed = st.builds(lambda key, offset: OffsetCommitted(*key, offset), keys, st.integers(0, 99))
logs = st.lists(
    st.one_of(
        committed,
        st.builds(OffsetPending, producer_ids, st.just(0), committed),
        st.builds(OffsetPending, producer_ids, st.just(0), committed),
        st.builds(lambda key: OffsetRemoved(*key), keys),
        st.builds(TransactionEnded, producer_ids, st.just(0), st.booleans(), st.just(0)),
    ),
    max_size=25,
)


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


@settings(deadline=None, max_examples=300)
@given(logs)
def test_offsets_take_effect_in_the_order_of_the_log(log: list[Logged]) -> None:
    tables = fresh()
    tables.replay(log)
    assert tables.seen == expected(log)


@settings(deadline=None)
@given(logs, logs)
def test_a_revert_takes_back_all(before: list[Logged], after: list[Logged]) -> None:
    tables = fresh()
    tables.replay(before)
    mark = tables.journal.mark
    tables.replay(after)
    tables.journal.revert_to(mark)
    assert tables.seen == expected(before)
    tables.replay(after)
    assert tables.seen == expected(before + after)
