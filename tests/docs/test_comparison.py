"""The ratios in docs/use/comparison.md are those of docs/performance.md."""

import re
from collections import defaultdict

import pytest

from tests.support.requirements import ROOT

PERFORMANCE = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
COMPARISON = (ROOT / "docs" / "use" / "comparison.md").read_text(encoding="utf-8")
MEASURED = re.compile(r"^\| (?P<case>[\w() -]+) \|[^|]+\|[^|]+\| \*\*(?P<ratio>[\d.]+)\*\*", re.MULTILINE)
QUOTED = re.compile(r"^\| [^|]+ \| `(?P<case>[^`]+)` \| (?P<ratio>[^|]+) \|$", re.MULTILINE)


def measured_ratios() -> dict[str, set[str]]:
    """By case. A case that was measured in several settings has several."""
    ratios = defaultdict(set)
    for row in MEASURED.finditer(PERFORMANCE):
        ratios[row["case"]].add(row["ratio"])
    return ratios


def test_there_are_ratios() -> None:
    assert len(QUOTED.findall(COMPARISON)) > 15


@pytest.mark.parametrize(("case", "ratio"), QUOTED.findall(COMPARISON))
def test_a_ratio_is_the_measured_one(case: str, ratio: str) -> None:
    assert ratio in measured_ratios()[case]
