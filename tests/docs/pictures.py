"""Draws the tables of states in the pages of docs/ that ask for them, as mermaid state diagrams.

A page asks by a line `<!-- drawn from services/…/module.py:TABLE -->`; the picture stands below it.

`python -m tests.docs.pictures [--check]`
"""

import argparse
import re
import sys
from collections.abc import Iterator, Mapping
from enum import Enum
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs"
TABLES = ROOT / "services"

ASKED = re.compile(r"<!-- drawn from (?P<module>[\w/]+)\.py:(?P<table>\w+) -->\n(?:```mermaid\n.*?```\n)?", re.DOTALL)
TABLE = re.compile(r"^(\w*TRANSITIONS)\b", re.MULTILINE)


def tables() -> set[str]:
    """`path:NAME` of every table of transitions."""
    found = ((path, TABLE.findall(path.read_text(encoding="utf-8"))) for path in sorted(TABLES.rglob("*.py")))
    return {f"{path.relative_to(ROOT)}:{name}" for path, names in found for name in names}


def drawn() -> set[str]:
    asked = (match for page in sorted(PAGES.glob("*.md")) for match in ASKED.finditer(page.read_text(encoding="utf-8")))
    return {f"{match['module']}.py:{match['table']}" for match in asked}


def with_pictures(text: str) -> str:
    return ASKED.sub(_block, text)


def picture(table: Mapping[object, object]) -> str:
    """From the state of the table's first row on. What leads from one state to the same other one is one arrow. What changes
    nothing, neither the state nor by an effect, is none."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for before, step, after in _rows(table):
        arrows.setdefault((_name(before), _name(after)), []).append(str(step.value))
    first = next(iter(arrows))[0]
    lines = [f"    {before} --> {after}: {' / '.join(steps)}" for (before, after), steps in arrows.items()]
    return "\n".join(["stateDiagram-v2", f"    [*] --> {first}", *lines])


def _rows(table: Mapping[object, object]) -> Iterator[tuple[Enum, Enum, Enum]]:
    """The transitions of all forms: {(state, step): state}, {state: {step: state}}, and {state: {step: (state, effects)}}."""
    for key, value in table.items():
        rows = [(key, step, after) for step, after in value.items()] if isinstance(value, Mapping) else [(*key, value)]
        for before, step, after in rows:
            if not isinstance(after, tuple):
                yield before, step, after
            elif after != (before, ()):
                yield before, step, after[0]


def _name(state: Enum) -> str:
    return "".join(word[0].upper() + word[1:] for word in str(state.value).split())


def _block(asked: re.Match[str]) -> str:
    table = getattr(import_module(asked["module"].replace("/", ".")), asked["table"])
    return f"<!-- drawn from {asked['module']}.py:{asked['table']} -->\n```mermaid\n{picture(table)}\n```\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a picture is out of date or missing")
    check = parser.parse_args().check
    missing = sorted(tables() - drawn())
    for table in missing:
        print(f"no page draws {table}")
    stale = [
        page
        for page in sorted(PAGES.glob("*.md"))
        if with_pictures(page.read_text(encoding="utf-8")) != page.read_text(encoding="utf-8")
    ]
    for page in stale:
        if check:
            print(f"out of date: {page.name}; run python -m tests.docs.pictures")
        else:
            page.write_text(with_pictures(page.read_text(encoding="utf-8")), encoding="utf-8")
            print(f"wrote: {page.name}")
    return 1 if missing or (check and stale) else 0


if __name__ == "__main__":
    sys.exit(main())
