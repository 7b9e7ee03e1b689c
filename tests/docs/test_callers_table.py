"""The table of docs/security.md that says which role may call what of which: `REWRITE=1` writes it from the code."""

import re
from collections.abc import Iterator
from itertools import groupby

from libs.roles import ROLES
from libs.rpc.contracts.callers import CALLERS, Callers
from tests.docs.callers_table import ANSWERS, ORDER, PAGE
from tests.support.stories import REWRITE

TABLE = re.compile(r"(?<=\n)\| who answers \|.*?\n(?=\n)", re.DOTALL)


def answerer(method: str) -> str:
    return ANSWERS.get(method.partition(".")[0], "all").replace("_", " ")


def callers_of(row: Callers) -> str:
    return "all" if row.roles == ROLES else ", ".join(role.replace("_", " ") for role in ORDER if role in row.roles)


def lines() -> Iterator[str]:
    yield "| who answers | who may call | what |"
    yield "|---|---|---|"
    rows = sorted((answerer(method), callers_of(row), method) for method, row in CALLERS.items())
    for (answers, callers), methods in groupby(rows, key=lambda row: row[:2]):
        yield f"| {answers} | {callers} | {', '.join(f'`{method}`' for _, _, method in methods)} |"


def test_the_page_has_the_table_of_the_code() -> None:
    page, table = PAGE.read_text(encoding="utf-8"), "\n".join(lines()) + "\n"
    shown = TABLE.search(page)
    assert shown is not None
    if REWRITE:
        PAGE.write_text(page.replace(shown.group(), table), encoding="utf-8")
    else:
        assert shown.group() == table, "REWRITE=1 pytest tests/docs/test_callers_table.py"
