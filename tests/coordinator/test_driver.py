"""A shard over a log in memory: it loads, answers when committed, and recovers from every answer of its log."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from libs.clock import SystemClock, WallMs
from libs.coordinator.core.states import State
from libs.coordinator.log.internal_log import Refused, Unknown
from libs.coordinator.shards.driver import ShardDriver
from libs.coordinator.shards.steady_time import SteadyTime
from libs.wire.errors import ErrorCode
from tests.coordinator.memory_log import Partition
from tests.coordinator.shelf import Add, Event, Fail, Put, Read, Recorded, Remove, Shelf, Wait
from tests.coordinator.submissions import submit_to_driver
from tests.support.polling import until

Driver = ShardDriver[Event, str, Recorded]
Run = Callable[..., Driver]


DAY_MS = 86_400_000


class SetClock(SystemClock):
    ahead_ms = 0

    def wall_ms(self) -> WallMs:
        return WallMs(super().wall_ms() + self.ahead_ms)


@pytest.fixture
async def partition() -> Partition:
    return Partition()


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
async def run(partition: Partition, clock: SetClock) -> AsyncIterator[Run]:
    drivers: list[Driver] = []
    time = SteadyTime(clock, asyncio.get_running_loop().time)

    def begin(owner_epoch: int = 1) -> Driver:
        driver: Driver = ShardDriver("t-0", partition.log(), Shelf, owner_epoch, clock, time, batch_bytes_max=100_000)
        drivers.append(driver)
        return driver

    yield begin
    partition.released.set()
    for driver in drivers:
        driver.unload()
        driver.leader_moved()
        await driver.closed()


async def reaches(driver: Driver, state: State) -> None:
    await until(lambda: driver.state is state)


async def is_gone(driver: Driver, key: str) -> None:
    async def reads_nothing() -> bool:
        return await said(driver, Read(key)) == "nothing"

    await until(reads_nothing)


async def serving(run: Run, owner_epoch: int = 1) -> Driver:
    driver = run(owner_epoch)
    await reaches(driver, State.SERVING)
    return driver


async def said(driver: Driver, event: Event) -> str | int:
    async with asyncio.timeout(60):
        answer = await submit_to_driver(driver, event)
    return answer.error or answer.reply


async def test_earlier_records_are_there_once_a_shard_is_loaded(partition: Partition, run: Run) -> None:
    partition.write((b"a", b"[1, -1]"), (b"b", b"[2, -1]"), codec=4)
    partition.write((b"b", None), (b"c", b"[3, -1]"))
    driver = await serving(run)
    assert [await said(driver, Read(key)) for key in "abc"] == ["1", "nothing", "3"]


async def test_a_shard_that_is_opened_while_the_clock_is_ahead_expires_nothing(
    partition: Partition, run: Run, clock: SetClock
) -> None:
    in_an_hour = clock.wall_ms() + 3_600_000
    partition.write((b"a", f"[1, {in_an_hour}]".encode()))
    clock.ahead_ms = DAY_MS
    driver = await serving(run)
    assert await said(driver, Read("a")) == "1"


async def test_a_shard_that_loads_sends_its_clients_to_wait(partition: Partition, run: Run) -> None:
    partition.write((b"a", b"[1, -1]"))
    partition.committed = 0
    driver = run()
    assert await said(driver, Read("a")) == 14
    await reaches(driver, State.LOADING)
    assert await said(driver, Read("a")) == 14
    partition.committed = None
    await reaches(driver, State.SERVING)
    assert await said(driver, Read("a")) == "1"


async def test_loading_ends_where_a_compaction_took_the_last_records_away(partition: Partition, run: Run) -> None:
    partition.write((b"a", b"[1, -1]"))
    partition.end = 5
    assert await said(await serving(run), Read("a")) == "1"


async def test_a_leader_that_does_not_know_yet_what_is_committed_is_asked_again(partition: Partition, run: Run) -> None:
    partition.write((b"a", b"[1, -1]"))
    partition.unreadable = 3
    assert await said(await serving(run), Read("a")) == "1"
    assert len(partition.claims) == 1


async def test_decisions_that_come_together_share_an_append(partition: Partition, run: Run) -> None:
    driver = await serving(run)
    answers = [submit_to_driver(driver, Add("a", 1)) for _ in range(10)]
    assert [(await answer).reply for answer in answers] == [str(number) for number in range(1, 11)]
    assert [len(planned.records) for planned in partition.appends] == [10]


async def test_a_read_waits_for_what_it_saw(partition: Partition, run: Run) -> None:
    driver = await serving(run)
    partition.released.clear()
    written = submit_to_driver(driver, Put("a", 1))
    read = submit_to_driver(driver, Read("a"))
    other = submit_to_driver(driver, Read("b"))
    await asyncio.sleep(0.01)
    assert not written.done()
    assert not read.done()
    assert not other.done()
    partition.released.set()
    assert [(await answer).reply for answer in (written, read, other)] == ["1", "1", "nothing"]


async def test_decisions_during_an_append_go_with_the_next_one(partition: Partition, run: Run) -> None:
    driver = await serving(run)
    partition.released.clear()
    answers = [submit_to_driver(driver, Add("a", 1))]
    await until(lambda: len(partition.appends) == 1)
    answers += [submit_to_driver(driver, Add("a", 1)) for _ in range(3)]
    partition.released.set()
    assert [(await answer).reply for answer in answers] == ["1", "2", "3", "4"]
    assert [len(planned.records) for planned in partition.appends] == [1, 3]


async def test_a_refused_append_is_taken_back_with_all_that_was_decided_on_it(partition: Partition, run: Run) -> None:
    driver = await serving(run)
    assert await said(driver, Put("a", 1)) == "1"
    partition.released.clear()
    partition.fate = lambda _: Refused(19)
    answers = [submit_to_driver(driver, Add("a", 1))]
    await until(lambda: len(partition.appends) == 2)
    answers += [submit_to_driver(driver, Add("a", 1)), submit_to_driver(driver, Read("a"))]
    partition.released.set()
    assert [(await answer).error for answer in answers] == [15, 15, 15]
    partition.fate = lambda _: None
    assert await said(driver, Read("a")) == "1"
    assert await said(driver, Add("a", 1)) == "2"
    assert len(partition.claims) == 1, "nothing was unsure"


@pytest.mark.parametrize("stored", [True, False])
async def test_after_an_append_of_unknown_outcome_the_log_says_what_became_of_it(
    partition: Partition, run: Run, stored: bool
) -> None:
    driver = await serving(run)
    await said(driver, Put("a", 1))
    partition.fate = lambda _: Unknown("no answer")
    if not stored:
        partition.write = lambda *_: None  # type: ignore[method-assign,assignment]
    assert await said(driver, Add("a", 1)) == 15
    partition.fate = lambda _: None
    await reaches(driver, State.SERVING)
    assert await said(driver, Read("a")) == ("2" if stored else "1")
    assert [fence.claim for fence in partition.claims] == [1, 2]


async def test_an_owner_that_was_replaced_closes_at_its_next_append(partition: Partition, run: Run) -> None:
    driver = await serving(run)
    successor = await serving(run, 2)
    assert await said(driver, Put("a", 1)) == ErrorCode.NOT_COORDINATOR
    assert driver.state is State.CLOSED
    assert await said(driver, Read("a")) == ErrorCode.NOT_COORDINATOR
    assert await said(successor, Read("a")) == "nothing"


async def test_a_read_that_must_be_current_finds_out_that_there_is_a_newer_owner(partition: Partition, run: Run) -> None:
    driver = await serving(run)
    successor = await serving(run, 2)
    await said(successor, Put("a", 1))
    assert await said(driver, Read("a")) == "nothing"
    assert await said(driver, Read("a", current=True)) == ErrorCode.NOT_COORDINATOR


async def test_reads_that_must_be_current_share_a_question(partition: Partition, run: Run) -> None:
    driver = await serving(run)
    reads = [submit_to_driver(driver, Read("a", current=True)) for _ in range(5)]
    assert [(await read).reply for read in reads] == ["nothing"] * 5
    assert [len(planned.records) for planned in partition.appends] == [0]


async def test_an_append_is_not_waited_for_when_its_leader_was_replaced(partition: Partition, run: Run) -> None:
    driver = await serving(run)
    partition.released.clear()
    waiting = submit_to_driver(driver, Put("a", 1))
    await until(lambda: len(partition.appends) == 1)
    partition.epoch = 1
    driver.leader_moved()
    assert (await waiting).error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    await reaches(driver, State.SERVING)
    assert partition.claims[-1].leader_epoch == 1
    assert await said(driver, Read("a")) == "1"


async def test_an_idle_shard_claims_again_when_its_leader_was_replaced(partition: Partition, run: Run) -> None:
    driver = await serving(run)
    partition.epoch = 1
    driver.leader_moved()
    await reaches(driver, State.SERVING)
    assert await said(driver, Put("a", 1)) == "1"


async def test_a_leader_that_moved_unheard_costs_a_refusal_and_a_claim(partition: Partition, run: Run) -> None:
    driver = await serving(run)
    partition.epoch = 1
    partition.claimed = None
    assert await said(driver, Put("a", 1)) == ErrorCode.NOT_COORDINATOR
    await reaches(driver, State.SERVING)
    assert await said(driver, Put("a", 1)) == "1"


async def test_a_shard_waits_until_there_is_a_leader(partition: Partition, run: Run) -> None:
    partition.epoch = None
    driver = run()
    assert await said(driver, Read("a")) == 14
    assert not partition.claims
    partition.epoch = 4
    driver.leader_moved()
    await reaches(driver, State.SERVING)


async def test_a_log_that_lost_what_was_committed_is_read_from_its_start(partition: Partition, run: Run) -> None:
    driver = await serving(run)
    await said(driver, Put("a", 1))
    await said(driver, Put("b", 1))
    del partition.batches[1]
    partition.end = 1
    partition.epoch = 1
    driver.leader_moved()
    await reaches(driver, State.SERVING)
    assert [await said(driver, Read(key)) for key in "ab"] == ["1", "nothing"]


async def test_a_damaged_log_is_not_served(partition: Partition, run: Run) -> None:
    partition.write((b"a", b"[1, -1]"))
    base, batch = partition.batches[0]
    partition.batches[0] = base, batch[:-1] + b"?"
    driver = run()
    async with asyncio.timeout(60):
        while len(partition.claims) < 3:
            assert await said(driver, Read("a")) == 14
            await asyncio.sleep(0.001)
    partition.batches[0] = base, batch
    await reaches(driver, State.SERVING)


async def test_a_record_that_cannot_be_read_is_not_passed_over(partition: Partition, run: Run) -> None:
    partition.write((b"a", b"nonsense"))
    driver = run()
    async with asyncio.timeout(60):
        while len(partition.claims) < 3:
            assert await said(driver, Read("a")) == 14
            await asyncio.sleep(0.001)


async def test_a_parked_request_is_woken_by_a_later_decision_once_that_is_committed(partition: Partition, run: Run) -> None:
    driver = await serving(run)
    waiting = submit_to_driver(driver, Wait("a", 1))
    assert await said(driver, Read("a")) == "nothing"
    assert not waiting.done()
    partition.released.clear()
    submit_to_driver(driver, Put("a", 7))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    partition.released.set()
    assert (await waiting).reply == "7"


async def test_a_request_that_was_woken_by_a_failed_decision_waits_again(partition: Partition, run: Run) -> None:
    driver = await serving(run)
    waiting = submit_to_driver(driver, Wait("a", 1))
    partition.fate = lambda _: Refused(19)
    assert await said(driver, Put("a", 7)) == 15
    assert not waiting.done()
    partition.fate = lambda _: None
    assert await said(driver, Put("a", 8)) == "8"
    assert (await waiting).reply == "8"


async def test_a_timer_comes_due_by_wall_time_also_after_a_reload(partition: Partition, run: Run) -> None:
    driver = await serving(run)
    now = SystemClock().wall_ms()
    await said(driver, Put("a", 1, now + 150))
    successor = await serving(run, 2)
    assert await said(successor, Read("a")) == "1"
    await is_gone(successor, "a")
    assert partition.appends[-1].records[0] == (b"a", None)


async def test_a_timer_whose_decision_failed_comes_again(partition: Partition, run: Run) -> None:
    driver = await serving(run)
    await said(driver, Put("a", 1, SystemClock().wall_ms() + 20))
    partition.fate = lambda _: Refused(19)
    await until(lambda: len(partition.appends) == 2)
    partition.fate = lambda _: None
    await is_gone(driver, "a")
    assert len(partition.appends) == 3


@pytest.mark.parametrize("replaying", [True, False])
async def test_a_decision_that_raises_harms_nobody_else(partition: Partition, run: Run, replaying: bool) -> None:
    driver = await serving(run)
    before = submit_to_driver(driver, Put("b", 1))
    failed = submit_to_driver(driver, Fail(replaying))
    after = submit_to_driver(driver, Add("b", 1))
    assert [(await answer).error for answer in (before, failed, after)] == [0, -1, 0]
    assert await said(driver, Read("a")) == "nothing"


async def test_a_decision_that_no_batch_can_hold_is_refused_alone(partition: Partition, run: Run) -> None:
    driver = await serving(run)
    before = submit_to_driver(driver, Put("b", 1))
    large = submit_to_driver(driver, Put("x" * 200_000, 1))
    assert [(await before).error, (await large).error] == [0, -1]
    assert await said(driver, Read("x" * 200_000)) == "nothing"


async def test_a_shard_that_is_given_up_answers_what_is_under_way_and_refuses_the_rest(partition: Partition, run: Run) -> None:
    driver = await serving(run)
    partition.released.clear()
    under_way = submit_to_driver(driver, Put("a", 1))
    await until(lambda: len(partition.appends) == 1)
    behind, waiting = submit_to_driver(driver, Put("b", 1)), submit_to_driver(driver, Wait("c", 1))
    driver.unload()
    assert driver.state is State.UNLOADING
    assert (await behind).error == ErrorCode.NOT_COORDINATOR
    assert await said(driver, Read("a")) == 16
    partition.released.set()
    assert (await under_way).reply == "1"
    assert (await waiting).error == ErrorCode.NOT_COORDINATOR
    await driver.closed()
    assert driver.state is State.CLOSED


async def test_a_tombstone_is_written_for_what_is_removed(partition: Partition, run: Run) -> None:
    driver = await serving(run)
    await said(driver, Put("a", 1))
    assert await said(driver, Remove("a")) == "1"
    assert await said(await serving(run, 2), Read("a")) == "nothing"


async def test_requests_of_one_turn_are_decided_at_once_and_share_an_append(partition: Partition, run: Run) -> None:
    driver, said = await serving(run), list[str | None]()
    expected = [driver.submit(Add("a", 1), lambda answer: said.append(answer.reply)) for _ in range(3)]
    await asyncio.sleep(0.01)
    assert (expected, partition.appends) == ([True] * 3, [])
    driver.append()
    assert not driver.submit(Add("a", 1), lambda answer: said.append(answer.reply)), "one is under way"
    await until(lambda: len(said) == 4)
    assert said == ["1", "2", "3", "4"]
    assert [len(planned.records) for planned in partition.appends] == [3, 1]


async def test_a_caller_that_fails_to_take_its_answer_keeps_no_other_from_theirs(run: Run) -> None:
    driver = await serving(run)

    def fail(_: object) -> None:
        raise RuntimeError("broken on purpose")

    driver.submit(Add("a", 1), fail)
    assert await said(driver, Add("a", 1)) == "2"


async def test_a_shard_whose_append_raises_is_read_again(partition: Partition, run: Run) -> None:
    driver = await serving(run)
    await said(driver, Put("a", 1))

    def fail(_: object) -> None:
        raise RuntimeError("broken on purpose")

    partition.fate = fail
    assert await said(driver, Add("a", 1)) == 15
    partition.fate = lambda _: None
    await reaches(driver, State.SERVING)
    assert await said(driver, Read("a")) == "1"
    assert [fence.claim for fence in partition.claims] == [1, 2]
