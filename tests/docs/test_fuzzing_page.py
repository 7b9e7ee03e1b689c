"""docs/fuzzing.md: both tables name each target, and no other."""

import re

from tests.docs.house_rules import ROOT
from tests.fuzz.targets import RUNS

PAGE = ROOT / "docs" / "fuzzing.md"
MODULES = ROOT / "tests" / "fuzz" / "targets"
LIVE = "gateway"


def named_in(section: str) -> list[str]:
    (text,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)


def test_both_tables_name_each_target() -> None:
    assert set(RUNS) == {path.stem for path in MODULES.glob("*.py")} - {"__init__"}
    assert named_in("Targets") == list(RUNS)
    assert named_in("Figures") == [*RUNS, LIVE]


def test_what_a_target_reads_and_holds_is_told_in_words() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `") and line.count("|") == 4]
    assert len(rows) == len(RUNS)
    for row in rows:
        reads, holds = row.strip("|").split(" | ")[1:]
        assert len(re.findall(r"[a-z]{2,}", reads)) >= 3, row
        assert len(re.findall(r"[a-z]{2,}", holds)) >= 2, row
