"""Whatever is written, offsets of transactions take effect as a reader of the whole log finds them."""

from hypothesis import given, settings
from hypothesis import strategies as st

from services.group_coordinator.core.model.records import OffsetCommitted, OffsetPending, OffsetRemoved, TransactionEnded
from tests.group_coordinator.offsets.pending_offsets_model import KEYS, Logged, expected, fresh

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
