"""The commands that a page of docs/ prints, so that tests run them as they are printed."""

from tests.support.printed_blocks import blocks_of
from tests.support.requirements import ROOT


def blocks(page: str) -> list[str]:
    return [block.text for block in blocks_of((ROOT / page).read_text(encoding="utf-8"))]


def block_with(page: str, words: str) -> str:
    """The one block that has these words."""
    return _only([block for block in blocks(page) if words in block], page, words)


def command_with(page: str, words: str) -> str:
    """The one line that has these words. `sudo` is left out: tests run as root."""
    lines = [line for block in blocks(page) for line in block.splitlines() if words in line]
    return _only(lines, page, words).removeprefix("sudo ")


def _only(found: list[str], page: str, words: str) -> str:
    assert len(found) == 1, f"{page} has {len(found)} times {words!r}"
    return found[0]
