"""A broker's `server.properties`, in the format of Java's Properties."""

import re
from collections.abc import Mapping
from typing import Final

from libs.commitlog.files.durable_files import read_file
from libs.commitlog.files.filesystem import FileSystem
from services.controller.recovery.store_contents import RecoveryRefused

_PAIR = re.compile(r"((?:\\.|[^\\=:\s])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_server_properties(fs: FileSystem, path: str) -> dict[str, str]:
    """The properties in the file. Raises RecoveryRefused if it names no directory, OSError."""
    properties = parse_properties((read_file(fs, path) or b"").decode("latin-1"))
    alone = is_controller_alone(properties) and properties.get("metadata.log.dir")
    if not (log_dirs_of(properties) or alone):
        raise RecoveryRefused(f"{path} names no log.dirs: it is no server.properties")
    return properties


def log_dirs_of(properties: Mapping[str, str]) -> str:
    """The list of log directories, "" if the properties have none."""
    return properties.get("log.dirs") or properties.get("log.dir", "")


def is_controller_alone(properties: Mapping[str, str]) -> bool:
    """Whether the node is no broker, and so has no logs of topics."""
    return [role.strip() for role in properties.get("process.roles", "").split(",")] == ["controller"]


def parse_properties(text: str) -> dict[str, str]:
    """The properties in `text`. As in Kafka, spaces around a value do not count."""
    properties: dict[str, str] = {}
    for line in _logical_lines(text):
        pair = _PAIR.fullmatch(line)
        assert pair is not None, "any text has a name, which may be empty"
        properties[_unescaped(pair[1])] = _unescaped(pair[2]).strip()
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
