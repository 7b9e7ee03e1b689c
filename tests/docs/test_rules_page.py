"""docs/rules.md: each row of content that clients choose has a bound, the files that keep it, and a test."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEADING = "### Content that clients choose"


def rows() -> list[list[str]]:
    section = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8").split(HEADING)[1].split("\n## ")[0]
    table = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[2:]]


def test_the_table_has_its_rows() -> None:
    assert len(rows()) >= 15


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_a_row_names_a_bound_and_files_that_exist(row: list[str]) -> None:
    work, where, bound, kept_in, tests = row
    assert work
    assert where
    assert bound
    for cell, tops in ((kept_in, ("libs/", "services/")), (tests, ("tests/",))):
        files = re.findall(r"`([^`]+)`", cell)
        assert files
        for name in files:
            assert name.startswith(tops)
            assert (ROOT / name).is_file(), name
