"""The format of Java's Properties, in which Kafka and its clients keep their settings."""

import re
from typing import Final

_PAIR = re.compile(r"((?:\\.|[^\\=:\s])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_BLANK: Final = "".join(map(chr, range(ord(" ") + 1)))
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def trimmed(text: str) -> str:
    """The text as Java's `String.trim` leaves it, by which Kafka reads values of settings: spaces of Unicode stay."""
    return text.strip(_BLANK)


def parse_properties(text: str) -> dict[str, str]:
    """The properties in `text`. As in Kafka, spaces around a value do not count."""
    properties: dict[str, str] = {}
    for line in _logical_lines(text):
        pair = _PAIR.fullmatch(line)
        assert pair is not None, "any text has a name, which may be empty"
        properties[_unescaped(pair[1])] = trimmed(_unescaped(pair[2]))
    return properties


def _logical_lines(text: str) -> list[str]:
    """The lines without comments. A line that ends with an odd number of backslashes goes on in the next one."""
    lines: list[str] = []
    begun = ""
    for natural in re.split(r"\r\n|\r|\n", text):
        line = natural.lstrip(" \t\f")
        if not begun and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            begun += line[:-1]
        else:
            lines.append(begun + line)
            begun = ""
    return [*lines, begun] if begun else lines


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1][1:], 16)) if len(match[1]) == 5 else _ESCAPES.get(match[1], match[1]), text)
