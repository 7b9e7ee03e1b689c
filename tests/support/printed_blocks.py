"""The fenced blocks of a page of docs/, and its sections."""

import re
from collections.abc import Iterator
from typing import NamedTuple

PRINTED_PORT = 9092
"""The bootstrap port that pages print."""
_BLOCK = re.compile(r"^```(?P<language>[^\n]*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    language: str
    """What stands behind the opening fence; "" if nothing does."""
    text: str


def blocks_of(markdown: str) -> Iterator[Block]:
    for found in _BLOCK.finditer(markdown):
        yield Block(found["language"], found["text"])


def section_of(markdown: str, title: str) -> str:
    """What stands below the only heading of that title, up to the next one of its level or above."""
    inside = [(block.start(), block.end()) for block in _BLOCK.finditer(markdown)]
    headings = [
        heading
        for heading in re.finditer(r"^(?P<level>#+) (?P<title>.+)$", markdown, re.MULTILINE)
        if not any(start < heading.start() < end for start, end in inside)  # that is a comment
    ]
    (own,) = (heading for heading in headings if heading["title"] == title)
    later = (each.start() for each in headings if each.start() > own.start() and len(each["level"]) <= len(own["level"]))
    return markdown[own.end() : next(later, len(markdown))]
