"""CI runs `make check-code` alone: a test makes each further check of `make check`."""

import ast
import re
from functools import cache

import pytest

from tests.docs.house_rules import ROOT

RECIPE = re.search(r"^check: check-code .*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
CHECKED = {"page", "files", "with_pictures", "broken"}
"""The functions that make what is compared, or find rules that are broken."""


def modules() -> list[str]:
    """The modules that `make check` runs beyond `make check-code`."""
    assert RECIPE is not None
    return re.findall(r"python -m (\S+)(?: --check)?\n", RECIPE[1])


@cache
def sources() -> list[str]:
    return [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]


def names_from(module: str, source: str) -> set[str]:
    """The names that a file imports from the module."""
    found = [each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.ImportFrom) and each.module == module]
    return {name.name for each in found for name in each.names}


def test_all_further_steps_are_modules() -> None:
    assert RECIPE is not None
    assert len(modules()) == RECIPE[1].count("\n") > 0


@pytest.mark.parametrize("module", modules())
def test_a_test_makes_the_check_of_a_module(module: str) -> None:
    assert any(names_from(module, source) & CHECKED for source in sources() if f"from {module} import" in source), module
