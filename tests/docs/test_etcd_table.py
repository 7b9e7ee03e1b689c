"""The table of docs/security.md that says what each role may do in etcd: `REWRITE=1` writes it from the code."""

import re
from collections.abc import Iterator

from libs.cluster.etcd.access import ACCESS, user_of
from tests.support.requirements import ROOT
from tests.support.stories import REWRITE

PAGE = ROOT / "docs" / "security.md"
TABLE = re.compile(r"(?<=\n)\| user \| reads, besides \|.*?\n(?=\n)", re.DOTALL)


def lines() -> Iterator[str]:
    yield "| user | reads, besides | reads and writes, below |"
    yield "|---|---|---|"
    for role, access in ACCESS.items():
        reads, writes = (", ".join(f"`{prefix}`" for prefix in prefixes) for prefixes in (access.reads, access.writes))
        yield f"| `{user_of(role)}` | {reads} | {writes} |"


def test_the_page_has_the_table_of_the_code() -> None:
    page = PAGE.read_text(encoding="utf-8")
    (printed,) = TABLE.findall(page)
    table = "".join(f"{line}\n" for line in lines())
    if REWRITE:
        PAGE.write_text(page.replace(printed, table), encoding="utf-8")
        return
    assert printed == table
