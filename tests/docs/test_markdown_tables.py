"""Tables of all pages: each has a header and a rule below it, and each row has as many cells as the header."""

import re
from collections.abc import Iterator

from tests.docs.house_rules import ROOT

FOLDERS = ("charts", "docs", "libs", "services", "tests")
FENCED = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
RULE = re.compile(r"\|(:?-+:?\|)+")
BAR = re.compile(r"(?<!\\)\|")
TABLES_MIN = 100


def tables_of(text: str) -> Iterator[list[tuple[int, str]]]:
    """The rows of each table outside code blocks, each with the number of its line."""
    lines = FENCED.sub(lambda block: "\n" * block[0].count("\n"), text).splitlines()
    table: list[tuple[int, str]] = []
    for number, line in enumerate([*lines, ""], start=1):
        if line.lstrip().startswith("|"):
            table.append((number, line.strip()))
        elif table:
            yield table
            table = []


def faults_of(table: list[tuple[int, str]]) -> Iterator[str]:
    (number, header), *rows = table
    if not rows or not RULE.fullmatch(rows[0][1]):
        yield f"{number}: no table without a header and a rule"
        return
    bars = len(BAR.findall(header))
    for number, row in rows:
        if len(BAR.findall(row)) != bars or not row.endswith("|"):
            yield f"{number}: {len(BAR.findall(row)) - 1} cells, {bars - 1} in the header"


def test_a_row_of_another_table_is_found() -> None:
    table = "| a | b |\n|---|--:|\n| `x \\| y` | 2 |\n"
    assert faults(table) == []
    assert faults(f"{table}| 1 | 2 | 3 |\n") == ["4: 3 cells, 2 in the header"]
    assert faults(f"{table}| 1 | 2\n") == ["4: 1 cells, 2 in the header"]
    assert faults(f"{table}\n| 1 | 2 |\n") == ["5: no table without a header and a rule"]
    assert faults(f"```\n| 1 |\n```\n{table}") == []


def faults(text: str) -> list[str]:
    return [fault for table in tables_of(text) for fault in faults_of(table)]


def test_each_row_of_each_page_has_the_cells_of_its_header() -> None:
    paths = [*ROOT.glob("*.md"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.md"))]
    pages = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}
    assert sum(1 for text in pages.values() for _ in tables_of(text)) >= TABLES_MIN
    assert [f"{name}:{fault}" for name, text in pages.items() for fault in faults(text)] == []
