"""Lookups keep their promises in random runs, and bugs that are planted into them are caught."""

import random

import pytest

from libs.commitlog.segments.timestamp_search import SearchBudget
from libs.wire.record_batches.records import Record, build_batch
from libs.wire.record_batches.timestamp_walk import TimestampWalk, walk_batch
from services.storage.core.fetch.lookup_turns import LookupTurns, TooManyLookups
from services.storage.fetch.lookup_steps import LookupSteps
from tests.simulation.planted import Mutant
from tests.storage.lookup_run import run_lookups, spends_all

SEEDS = 40

TURN_BUGS = {
    "a lookup that fails keeps its turn": Mutant(
        LookupSteps.do,
        "if read.done():",
        "if read.done() and read.exception():\n            pass\n        elif read.done():",
    ),
    "a child walks on for a caller that left": Mutant(
        LookupSteps.walk, "self._children.run(walk_batch, walk)", "asyncio.shield(self._children.run(walk_batch, walk))"
    ),
    "a caller that leaves while a disk reads frees its turn at once": Mutant(
        LookupSteps.do, "read.add_done_callback(partial(self._read_for_nobody, disk))", "self.end_turn(disk)"
    ),
    "a turn is given to a caller that left": Mutant(
        LookupSteps.end_turn,
        "while following is not None and following.cancelled():",
        "while False:",
    ),
    "a turn that is given while its caller leaves is lost": Mutant(
        LookupSteps.take_turn,
        "else:  # it was given in this very moment\n            self.end_turn(disk)",
        "else:\n            pass",
    ),
    "a caller that leaves is still counted": Mutant(LookupTurns.leave, "self._count[disk] -= 1", "pass"),
    "nothing bounds those who wait": Mutant(LookupTurns.join, "self._count[disk] >= self._waiting_max", "self._count[disk] < 0"),
}


def test_a_disk_that_hangs_leaves_room_for_lookups_of_others() -> None:
    turns: LookupTurns[str] = LookupTurns(waiting_max=2)
    assert turns.join("/hangs", "p", "turn")
    assert not turns.join("/hangs", "p", "first")
    assert not turns.join("/hangs", "q", "second")
    assert turns.join("/other", "r", "turn")
    assert not turns.join("/other", "r", "third")
    with pytest.raises(TooManyLookups):
        turns.join("/hangs", "q", "one too many")
    assert turns.end("/hangs") == "first"
    assert not turns.join("/hangs", "q", "fourth")
    assert (turns.waiting_for("/hangs"), turns.waiting_for("/other"), turns.waiting) == (2, 1, 3)


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_lookups_have_turns_and_all_of_them_end(seed: int) -> None:
    await run_lookups(seed)


@pytest.mark.parametrize("bug", TURN_BUGS)
async def test_a_bug_in_the_turns_is_caught(bug: str) -> None:
    with TURN_BUGS[bug].planted():
        for seed in range(SEEDS):
            try:
                await run_lookups(seed)
            except Exception:
                return
    pytest.fail(f"no seed of {SEEDS} catches it: {bug}")


def first_of(batch: bytes, timestamp: int) -> tuple[int, int]:
    """The first record that is late enough, and the number of records that the walk looked at."""
    result = walk_batch(TimestampWalk(batch, timestamp, 0, 1 << 20, 1000))
    return result.offset, result.records


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("if timestamp >= wanted:", "if timestamp > wanted:"),
        ("return WalkResult(offset, timestamp, header.leader_epoch, True, content.decompressed, index + 1)", "break"),
        ("count = min(header.record_count, walk.records_max)", "count = header.record_count"),
    ],
    ids=["it goes on past the timestamp", "it stops before it", "it has no bound"],
)
def test_a_bug_in_the_walk_is_caught(right: str, wrong: str) -> None:
    dice = random.Random(3)
    batch = bytes(build_batch([Record(None, b"v", dice.randrange(100)) for _ in range(1200)], codec=4))
    looked_up = [first_of(batch, timestamp) for timestamp in range(0, 120, 7)]
    with Mutant(walk_batch, right, wrong).planted():
        assert [first_of(batch, timestamp) for timestamp in range(0, 120, 7)] != looked_up


def test_a_budget_that_nothing_is_taken_from_is_caught() -> None:
    assert spends_all(SearchBudget())
    assert spends_all(SearchBudget(batches=1 << 30, bytes=100))
    assert spends_all(SearchBudget(batches=1 << 30, records=100))
    with Mutant(SearchBudget.take, "self.batches -= 1", "pass").planted():
        assert not spends_all(SearchBudget())
