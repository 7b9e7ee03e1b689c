"""The threat model of docs/security.md: every role has a row, each mechanism a test, and who trusts whom is what the code allows.

`REWRITE=1` writes the table of who trusts whom. `test_architecture.py` finds the tests that the page names.
"""

import re
from collections.abc import Iterator

import pytest

from libs.roles import ROLES
from libs.rpc.contracts.callers import CALLERS
from tests.docs.callers_table import ANSWERS, ORDER, PAGE
from tests.support.stories import REWRITE

TRUST = re.compile(r"(?<=\n)\| process \| is asked by \|.*?\n(?=\n)", re.DOTALL)
PARTIES = re.compile(r"### Who may do what\n.*?(?=\n### )", re.DOTALL)
TEST = re.compile(r"`tests/[\w/]+/test_\w+\.py:test_\w+`")
UNSTOPPED = {
    "controller",
    "quota manager",
    "etcd, and who has the certificate of its user `root` or of a controller",
    "root of a host, and who has its disk",
}
"""Parties that nothing but their place in the system holds back."""
PACKAGES = "whoever publishes a package that Penstock installs"
HEARD_OF_ALL = {"controller.heartbeat"}


def asked_by(answerer: str) -> set[str]:
    """The roles that may call a process of this role, beside what all may."""
    return {
        role
        for method, row in CALLERS.items()
        if ANSWERS.get(method.partition(".")[0]) == answerer and method not in HEARD_OF_ALL
        for role in row.roles
    }


def named(roles: set[str]) -> str:
    return ", ".join(role.replace("_", " ") for role in ORDER if role in roles) or "nobody"


def lines() -> Iterator[str]:
    yield "| process | is asked by | asks |"
    yield "|---|---|---|"
    for role in ORDER:
        asks = {each for each in ROLES if role in asked_by(each)}
        yield f"| {role.replace('_', ' ')} | {named(asked_by(role))} | {named(asks)} |"


def parties() -> list[list[str]]:
    found = PARTIES.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None
    rows = [line for line in found.group().splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows[1:]]


def test_who_trusts_whom_is_what_the_code_allows() -> None:
    page, table = PAGE.read_text(encoding="utf-8"), "\n".join(lines()) + "\n"
    shown = TRUST.search(page)
    assert shown is not None
    if REWRITE:
        PAGE.write_text(page.replace(shown.group(), table), encoding="utf-8")
    else:
        assert shown.group() == table, "REWRITE=1 pytest tests/docs/test_threat_model.py"


def test_each_role_is_a_party() -> None:
    assert {role.replace("_", " ").replace("storage", "storage node") for role in ROLES} <= {row[0] for row in parties()}


@pytest.mark.parametrize("row", parties(), ids=lambda row: row[0][:40])
def test_what_stops_a_party_has_a_test_and_what_is_left_is_said(row: list[str]) -> None:
    who, may, stopped, left = row
    assert may
    assert left
    assert TEST.search(" ".join(row)) or who in UNSTOPPED or who == PACKAGES, stopped
