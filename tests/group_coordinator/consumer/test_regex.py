"""Regular expressions of subscriptions, beside the library that Kafka takes for them."""

import json
import subprocess
from pathlib import Path
from random import Random
from time import process_time

import pytest

from services.group_coordinator.core.consumer.regex import (
    LENGTH_MAX,
    InvalidRegularExpression,
    matching_topics,
)
from tests.compat.kafka.jars import KafkaJars
from tests.compat.kafka.tools import SHORT_LIVED
from tests.support.requirements import ROOT, require

NAMES = sorted(
    ["orders", "orders.eu", "orders-2024", "Orders", "payments", "a", "aa", "ab", "b", "x_1", "x.1", "__consumer_offsets"]
)
PATTERNS = [
    "orders",
    "orders.*",
    r"orders\..*",
    "(?i)orders",
    "order",
    ".*",
    "",
    "a|ab",
    "(a|b)+",
    "[^_].*",
    r"x[._]\d",
    r"\w+",
    "^a$",
    r"\Qorders.eu\E",
    r"\pL+",
    "a{2}",
    "a{1,}b?",
    "(?P<n>a)b",
    "(?:a)b",
    r"\x61",
    "[[:alpha:]]+",
    "o.+?s",
    r"\Aa\z",
    r"\ba\b",
    "(a",
    "[a",
    "a**",
    "*a",
    "a{1001}",
    "(?=a)",
    "(?!a)b",
    "\\",
    r"\y",
    "(?P<1-)",
    "a{2,1}",
    "[z-a]",
    r"\1",
    "[[:foo:]]",
    r"\pX",
    "a++",
    "(?#c)a",
]


def random_pattern(random: Random, depth: int = 3) -> str:
    if depth == 0 or random.random() < 0.3:
        return random.choice(["a", "b", ".", r"\.", "[ab]", "[^a]", "orders", r"\w", "x", "1", "_"])
    parts = [random_pattern(random, depth - 1) for _ in range(random.randint(1, 3))]
    shape = random.choice(["{}", "({})", "({})*", "({})+", "({})?", "({}|a)", "{}|{}", "(?i:{})"])
    return shape.format("".join(parts), parts[0])


@pytest.fixture(scope="module")
def patterns() -> list[str]:
    random = Random(848)
    return [*PATTERNS, *(random_pattern(random) for _ in range(500))]


@pytest.fixture(scope="module")
def by_kafka(patterns: list[str]) -> list[list[str] | str]:
    require("java", "kafka")
    argv = [*KafkaJars(ROOT).command("", options=SHORT_LIVED)[:-1], str(Path(__file__).parent / "KafkaRegex.java")]
    done = subprocess.run(
        argv, input=f"{json.dumps(patterns)}\n{json.dumps(NAMES)}\n", capture_output=True, encoding="utf-8", timeout=60
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answers: list[list[str] | str] = json.loads(done.stdout)
    return answers


def test_the_same_topics_match_as_in_kafka_and_the_same_is_said_of_what_is_invalid(
    patterns: list[str], by_kafka: list[list[str] | str]
) -> None:
    for pattern, theirs in zip(patterns, by_kafka, strict=True):
        if isinstance(theirs, str):
            with pytest.raises(InvalidRegularExpression) as refused:
                matching_topics(pattern, ())
            assert str(refused.value) == f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {theirs}."
        else:
            assert list(matching_topics(pattern, NAMES)) == theirs, pattern


def test_a_pattern_matches_whole_names() -> None:
    assert matching_topics("order", NAMES) == ()
    assert matching_topics("a|ab", NAMES) == ("a", "ab")


def test_an_overlong_pattern_is_refused_and_not_repeated_in_full() -> None:
    with pytest.raises(InvalidRegularExpression, match="longer than") as refused:
        matching_topics("a" * (LENGTH_MAX + 1), ())
    assert len(str(refused.value)) < 200
    matching_topics("a" * LENGTH_MAX, ())


@pytest.mark.parametrize("pattern", ["((a{100}){100}){100}", r"(\pL{1000}){1000}", "(((a*){50}){50}){50}", r"(\pL|\pN){900}"])
def test_a_pattern_that_would_take_much_memory_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidRegularExpression):
        matching_topics(pattern, ())


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(a|aa)+b", "(.*){30}b"])
def test_a_pattern_that_makes_other_engines_backtrack_takes_no_time(pattern: str) -> None:
    start = process_time()
    assert matching_topics(pattern, ["a" * 249] * 50) == ()
    assert process_time() - start < 1.0
