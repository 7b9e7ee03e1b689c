"""Findings: each problem in plain words, with its file and byte."""

from collections import Counter
from dataclasses import field
from enum import StrEnum

from libs.lean_dataclass import dataclass

PER_FILE_MAX = 10


class Severity(StrEnum):
    PROBLEM = "problem"
    """A state that is wrong."""
    NOTE = "note"
    """A state that is allowed, and worth knowing."""


@dataclass(frozen=True, slots=True)
class Finding:
    severity: Severity
    path: str
    position: int | None  # byte in the file
    message: str


@dataclass(slots=True)
class Findings:
    """The findings of an inspection. Of each file ten are kept, and the others are counted."""

    entries: list[Finding] = field(default_factory=list)
    problems: int = 0
    _per_file: Counter[str] = field(default_factory=Counter)

    def problem(self, path: str, position: int | None, message: str) -> None:
        self.problems += 1
        self._add(Finding(Severity.PROBLEM, path, position, message))

    def note(self, path: str, position: int | None, message: str) -> None:
        self._add(Finding(Severity.NOTE, path, position, message))

    def _add(self, finding: Finding) -> None:
        self._per_file[finding.path] += 1
        if self._per_file[finding.path] <= PER_FILE_MAX:
            self.entries.append(finding)

    @property
    def left_out(self) -> dict[str, int]:
        """Findings beyond the first ten of a file, by file."""
        return {path: count - PER_FILE_MAX for path, count in self._per_file.items() if count > PER_FILE_MAX}
