"""A TOML table from which a reader takes keys, each with its type and what is allowed."""

import difflib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from services.pipeline.errors import InvalidJobFile

NOTHING: Any = object()
LONG_MAX = (1 << 63) - 1
"""The largest whole number of Spark and Kafka, and of TOML."""
LOCAL_PATH = re.compile(r"file:|(?![a-zA-Z][a-zA-Z0-9+.-]*:)")
"""What begins as a path of this machine does, not as a URI of another file system."""
NO_FOLDER = re.compile(r"(?![a-zA-Z][a-zA-Z0-9+.-]*:/)[^/]*:")
"""A colon before the first slash that ends no scheme: Hadoop refuses it."""
NOT_IN_PATHS = frozenset("*?[]{}\\`")


class TableReader:
    """Takes keys out of one table; `end()` refuses what nobody took. `name` as in messages, e.g. `jobs.orders`."""

    def __init__(self, name: str, values: Mapping[str, Any]) -> None:
        self.name = name
        self._values = dict(values)
        self._known: list[str] = []

    def has(self, key: str) -> bool:
        return key in self._values

    def text(self, key: str, default: Any = NOTHING) -> Any:
        """A string that is not empty."""
        value = self._take(key, str, "a string", default)
        if value == "":
            raise self.refusal(key, value, "a string that is not empty")
        return value

    def choice(self, key: str, allowed: Sequence[str], default: Any = NOTHING) -> Any:
        value = self._take(key, str, " or ".join(map(repr, allowed)), default)
        if value is not default and value not in allowed:
            raise self.refusal(key, value, " or ".join(map(repr, allowed)))
        return value

    def path(self, key: str, default: Any = NOTHING) -> Any:
        """A path or URI without slashes at its end. It may not be blank, the root, a pattern, nor a file of this machine."""
        text = self.text(key, default)
        if not NOT_IN_PATHS.isdisjoint(text):
            allowed = f"a path without {' '.join(sorted(NOT_IN_PATHS))}: Spark takes them for patterns or quotes"
            raise self.refusal(key, text, allowed)
        path = text.rstrip("/")
        if not path.strip() or path.endswith(":"):
            raise self.refusal(key, text, "the path or URI of a folder, which is not the root")
        if NO_FOLDER.match(path):
            allowed = "a path, or a URI with a slash behind its scheme; a path whose first folder has ':' begins with './'"
            raise self.refusal(key, text, allowed)
        if LOCAL_PATH.match(path):
            local = Path(path.removeprefix("file:"))
            if file := next((each for each in (local, *local.parents) if each.is_file()), None):
                raise self.refusal(key, text, f"the path or URI of a folder, and {file} is a file")
        return path

    def integer(self, key: str, default: Any = NOTHING, *, at_least: int = 0, at_most: int = LONG_MAX) -> Any:
        allowed = f"a whole number from {at_least}" + (f" to {at_most}" if at_most != LONG_MAX else "")
        value = self._take(key, int, allowed, default)
        if isinstance(value, int) and not at_least <= value <= at_most:
            raise self.refusal(key, value, allowed)
        return value

    def boolean(self, key: str, default: Any = NOTHING) -> Any:
        return self._take(key, bool, "true or false", default)

    def texts(self, key: str, default: Any = NOTHING) -> Any:
        """A tuple of strings, at least one."""
        values = self._take(key, list, "a list of strings", default)
        if values is default:
            return values
        if not values or not all(isinstance(each, str) and each for each in values):
            raise self.refusal(key, values, "a list of strings, at least one")
        return tuple(values)

    def integers(self, key: str, *, at_most: int = LONG_MAX) -> tuple[int, ...]:
        """Whole numbers from 0, at least one."""
        allowed = f"a list of whole numbers from 0 to {at_most}, at least one"
        values = self._take(key, list, allowed, NOTHING)
        fit = all(isinstance(each, int) and not isinstance(each, bool) and 0 <= each <= at_most for each in values)
        if not values or not fit:
            raise self.refusal(key, values, allowed)
        return tuple(values)

    def settings(self, key: str) -> dict[str, str]:
        """A table of settings, with nested tables as dotted names; numbers and booleans as the text that Spark and Kafka read."""
        return dict(_flattened(f"{self.name}.{key}", "", self._take(key, dict, "a table", {})))

    def table(self, key: str, default: Any = NOTHING) -> "TableReader":
        name = f"{self.name}.{key}" if self.name else key
        return TableReader(name, self._take(key, dict, "a table", default))

    def keys(self) -> list[str]:
        return list(self._values)

    def refusal(self, key: str, value: object, allowed: str) -> InvalidJobFile:
        return InvalidJobFile(f"{self._full(key)} is {value!r}; allowed is {allowed}")

    def absence(self, key: str, expected: str) -> InvalidJobFile:
        return InvalidJobFile(f"{self._full(key)} is missing; it is {expected}")

    def refuse_misspelt(self, key: str, meant: str) -> None:
        """Raises InvalidJobFile if the table has that key, which nobody takes."""
        if self.has(key):
            raise InvalidJobFile(f"there is no key {self._full(key)}; did you mean {meant}?")

    def refuse_needless(self, key: str, reason: str) -> None:
        """Raises InvalidJobFile if the table has that key, which means nothing beside the others."""
        if self.has(key):
            raise InvalidJobFile(f"{self._full(key)} is not allowed here: {reason}")

    def end(self) -> None:
        for key in self._values:
            alike = difflib.get_close_matches(key, self._known, n=1)
            hint = f"did you mean {alike[0]}?" if alike else f"known here: {', '.join(self._known)}"
            raise InvalidJobFile(f"there is no key {self._full(key)}; {hint}")

    def _take(self, key: str, kind: type, allowed: str, default: Any) -> Any:
        self._known.append(key)
        value = self._values.pop(key, default)
        if value is NOTHING:
            raise self.absence(key, allowed)
        if value is not default and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
            raise self.refusal(key, value, allowed)
        return value

    def _full(self, key: str) -> str:
        return f"{self.name}.{key}" if self.name else key


def _flattened(table: str, prefix: str, values: Mapping[str, Any]) -> Any:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flattened(table, f"{prefix}{key}.", value)
        elif isinstance(value, bool):
            yield prefix + key, str(value).lower()
        elif isinstance(value, str | int | float):
            yield prefix + key, str(value)
        else:
            raise InvalidJobFile(f"{table}.{prefix}{key} is {value!r}; allowed is a string, a number, true or false")
