"""Rules of pending offsets broken on purpose: a reader of the whole log must notice."""

import random

import pytest

from services.group_coordinator.core.model.records import OffsetCommitted, OffsetPending, OffsetRemoved, TransactionEnded
from services.group_coordinator.core.offsets.pending_offsets import PendingOffsets
from tests.group_coordinator.offsets.pending_offsets_model import KEYS, Logged, expected, fresh
from tests.simulation.planted import Mutant

SEEDS = 200
BUGS = {
    "an abort commits": Mutant(PendingOffsets.end, "if not ended.commits:", "if False:"),
    "a commit aborts": Mutant(PendingOffsets.end, "if not ended.commits:", "if ended.commits:"),
    "an ended transaction stays open": Mutant(PendingOffsets.end, "self._epochs.pop(ended.producer_id, None)", "None"),
    "offsets outlive their transaction": Mutant(
        PendingOffsets.end, "self._offsets.pop(ended.producer_id, None)", "self._offsets.get(ended.producer_id)"
    ),
    "a partition stays unstable": Mutant(
        PendingOffsets.end, "self._forget_producer(group, (topic, partition), ended.producer_id)", "pass"
    ),
    "an older transaction wins": Mutant(
        PendingOffsets.end, "self.replace(*_partition_of(pending.committed), before=pending.place)", "pass"
    ),
    "a newer transaction is lost": Mutant(PendingOffsets.end, "before=pending.place", "before=None"),
    "a plain commit loses to an older transaction": Mutant(
        PendingOffsets.replace, "before is None or ", "before is not None and "
    ),
    "all transactions have one place": Mutant(PendingOffsets.put, "self._place += 1", "pass"),
    "one producer for each partition": Mutant(
        PendingOffsets.put, "partitions.get(key, frozenset()) | {producer_id}", "frozenset({producer_id})"
    ),
    "the first offset of a transaction stays": Mutant(
        PendingOffsets.put,
        "offsets[_partition_of(committed)] = _Pending",
        "offsets[_partition_of(committed)] = offsets.get(_partition_of(committed)) or _Pending",
    ),
}


def random_log(seed: int) -> list[Logged]:
    chance = random.Random(seed)

    def record() -> Logged:
        key, producer_id = chance.choice(KEYS), chance.randint(1, 3)
        committed = OffsetCommitted(*key, chance.randrange(1000))
        match chance.randrange(6):
            case 0:
                return committed
            case 1:
                return OffsetRemoved(*key)
            case 2 | 3 | 4:
                return OffsetPending(producer_id, 0, committed)
            case _:
                return TransactionEnded(producer_id, 0, chance.random() < 0.7, 0)

    return [record() for _ in range(chance.randint(5, 30))]


def agrees(seed: int) -> bool:
    tables, log = fresh(), random_log(seed)
    tables.replay(log)
    return tables.seen == expected(log)


@pytest.mark.parametrize("name", BUGS)
def test_it_is_noticed(name: str) -> None:
    assert all(agrees(seed) for seed in range(SEEDS))
    with BUGS[name].planted():
        for seed in range(SEEDS):
            try:
                if not agrees(seed):
                    return
            except (AssertionError, KeyError):
                return
    raise AssertionError(f"{name}: not noticed in {SEEDS} logs")
