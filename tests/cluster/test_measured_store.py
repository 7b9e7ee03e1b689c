"""The measured metadata store: calls are timed, and slow ones, failures and lost leases are told."""

import pytest

from libs.cluster.measured_store import RECENT_S, SLOW_CALLS, MeasuredStore
from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.store import Operation, Outcome, Put, StoreUnavailable, TxnResult

STORE = "penstock_metadata_store_"


class SlowStore(MemoryStore):
    """Each call takes `takes_s` of a clock that stands still meanwhile. `away`: it does not answer."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 1_000.0
        self.takes_s = 0.01
        self.away = False

    async def range(self, prefix: str):
        self.now_s += self.takes_s
        if self.away:
            raise StoreUnavailable("away")
        return await super().range(prefix)

    async def txn(self, compares, operations: list[Operation]):
        self.now_s += self.takes_s
        return TxnResult(Outcome.UNKNOWN, 0) if self.away else await super().txn(compares, operations)

    async def keep_alive(self, lease: int) -> int:
        return 0 if self.away else 10


@pytest.fixture
def slow() -> SlowStore:
    return SlowStore()


@pytest.fixture
def store(slow: SlowStore) -> MeasuredStore:
    return MeasuredStore(slow, lambda: slow.now_s)


def samples(store: MeasuredStore) -> dict[str, float]:
    return {
        f"{sample.name}{{{','.join(sample.labels.values())}}}": sample.value
        for family in store.collect()
        for sample in family.samples
        if "bucket" not in sample.name
    }


async def test_calls_are_timed_by_name(store: MeasuredStore, slow: SlowStore) -> None:
    assert (await store.txn([], [Put("/k", b"v")])).outcome is Outcome.OK
    assert [each.key for each in (await store.range("/")).items] == ["/k"]
    found = samples(store)
    assert found[f"{STORE}call_seconds_count{{txn}}"] == found[f"{STORE}call_seconds_count{{range}}"] == 1
    assert found[f"{STORE}call_seconds_sum{{range}}"] == pytest.approx(slow.takes_s)
    assert store.trouble.words() == ""


async def test_a_call_without_an_answer_and_an_unknown_write_are_failures(store: MeasuredStore, slow: SlowStore) -> None:
    slow.away = True
    with pytest.raises(StoreUnavailable):
        await store.range("/")
    assert (await store.txn([], [Put("/k", b"v")])).outcome is Outcome.UNKNOWN
    found = samples(store)
    assert (found[f"{STORE}failures_total{{range}}"], found[f"{STORE}failures_total{{txn}}"]) == (1, 1)


async def test_calls_that_are_slow_again_and_again_are_trouble_until_one_is_not(store: MeasuredStore, slow: SlowStore) -> None:
    slow.takes_s = 1.5
    for _ in range(SLOW_CALLS - 1):
        await store.range("/")
        assert store.trouble.words() == ""
    await store.range("/")
    assert store.trouble.words() == "the metadata store (etcd) takes 1.5 s and longer for a call"
    slow.takes_s = 0.01
    await store.range("/")
    assert store.trouble.words() == ""


async def test_a_lease_that_is_gone_is_counted_and_told_for_a_while(store: MeasuredStore, slow: SlowStore) -> None:
    assert await store.keep_alive(7) == 10
    slow.away = True
    assert await store.keep_alive(7) == 0
    assert samples(store)[f"{STORE}lost_leases_total{{}}"] == 1
    assert store.trouble.words() == "a lease of the active controller ended"
    slow.now_s += RECENT_S + 1
    assert store.trouble.words() == ""
