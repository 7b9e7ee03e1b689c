"""docs/simulation.md: the table of planted bugs says what tests/simulation/catching_seeds.json says."""

import json
import re

import pytest

from tests.docs.house_rules import ROOT

SEEDS: dict[str, dict[str, int]] = json.loads((ROOT / "tests/simulation/catching_seeds.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("kind", ["component", "groups", "transactions", "compaction", "quotas", "disk"])
def test_planted_bugs_and_the_seeds_that_catch_them_are_those_of_the_file(kind: str) -> None:
    page = (ROOT / "docs" / "simulation.md").read_text(encoding="utf-8")
    row = re.search(rf"^\| `{kind}` \| [^|]+ \| (\d+) \| (\d+) \| (\d+) \| (.*) ?\|$", page, re.MULTILINE)
    assert row is not None
    found = SEEDS[kind]
    numbers = [len(found), sum(seed <= 9 for seed in found.values()), sum(seed <= 99 for seed in found.values())]
    assert [int(number) for number in row.groups()[:3]] == numbers
    later = sorted((seed, name) for name, seed in found.items() if seed > 99)
    assert row[4].strip() == ", ".join(f"{name} ({seed:,})" for seed, name in later)
