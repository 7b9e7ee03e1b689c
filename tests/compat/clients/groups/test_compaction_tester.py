"""Kafka's own torture test of compaction, which reads in a group what is left."""

import re

import pytest

from tests.compat.kafka.tools import run_compaction_tester

SLEEPS_S = (15, 60)
"""The tool sleeps between writing and reading. A busy machine may not have compacted by the end of a short sleep."""


def test_kafkas_compaction_tester_finds_the_last_value_of_every_key_and_less_than_it_wrote(bootstrap: str) -> None:
    amount = ("--messages", "100000", "--topics", "2", "--duplicates", "50", "--percent-deletes", "10")
    for sleep_s in SLEEPS_S:
        said = run_compaction_tester("--bootstrap-server", bootstrap, *amount, "--sleep", str(sleep_s))
        assert "0 mismatches" in said
        assert "Data verification is completed" in said
        produced, consumed = map(int, re.search(r"(\d+) rows of data produced, (\d+) rows of data consumed", said).groups())
        assert produced == 200_000
        if consumed < produced:
            return
    pytest.fail(f"nothing was compacted within {SLEEPS_S[-1]} s")
