"""The polling helpers, and the text of their failures when a deadline passes."""

import asyncio

import pytest

from tests.support.polling import eventually, rounds, until


def test_the_first_truthy_answer_is_returned() -> None:
    answers = iter([0, [], "there"])
    assert eventually(lambda: next(answers)) == "there"


def test_a_failure_shows_the_condition_its_last_answer_and_the_values_that_it_looks_at() -> None:
    names = ["a"]
    with pytest.raises(AssertionError, match=r"(?s)not within 0.05 s: .*len\(names\).*last answer: False.*names = \['a'\]"):
        eventually(lambda: len(names) == 2, 0.05)


async def test_a_coroutine_waits_for_the_same_and_says_the_same() -> None:
    names = ["a"]

    async def two() -> bool:
        return len(names) == 2

    with pytest.raises(AssertionError, match=r"(?s)async def two.*last answer: False.*names = \['a'\]"):
        await until(two, 0.05)
    asyncio.get_running_loop().call_soon(names.append, "b")
    await until(two)


async def test_a_condition_that_hangs_ends_with_the_deadline() -> None:
    async def hangs() -> bool:
        return await asyncio.Event().wait()

    with pytest.raises(AssertionError, match=r"not within 0.05 s"):
        await until(hangs, 0.05)


async def test_a_timeout_of_the_condition_itself_is_not_taken_for_the_deadline() -> None:
    async def times_out() -> bool:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        await until(times_out)


def test_rounds_end_by_failing_for_their_purpose() -> None:
    with pytest.raises(AssertionError, match=r"the rest: not within 0.01 s, \d+ rounds"):
        for _ in rounds("the rest", 0.01):
            pass
