"""docs/bad-inputs.md: each kind of bad input has an answer, and a test that sends it. `test_architecture.py` finds the tests."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "bad-inputs.md"
LEAST, PAST_FAULTS = 60, 10
TEST = re.compile(r"`tests/[\w/]+/test_\w+\.py:test_\w+`")


def rows() -> list[list[str]]:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in cells if row[0] not in ("sent", "fault", "what harms") and not row[0].startswith("---")]


def test_the_table_has_its_rows() -> None:
    assert len(rows()) >= LEAST
    assert sum(row[0].startswith(("CVE-", "Redpanda")) for row in rows()) >= PAST_FAULTS


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][:40])
def test_a_row_says_what_is_answered_and_names_a_test_that_sends_it(row: list[str]) -> None:
    sent, answer, tests = row
    assert sent
    assert answer
    assert TEST.findall(tests)


def test_each_test_that_names_a_past_fault_is_in_the_table() -> None:
    """A test that is named for a CVE is one of the page's."""
    page, tests = PAGE.read_text(encoding="utf-8"), PAGE.parents[1] / "tests"
    named = {
        name for path in tests.rglob("test_*.py") for name in re.findall(r"def (test_cve_\w+)", path.read_text(encoding="utf-8"))
    }
    assert named
    assert not {name for name in named if f":{name}`" not in page}
