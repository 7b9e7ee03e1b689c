"""What is wrong, in plain words, with the file and the byte."""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

PER_FILE_MAX = 10


class Severity(StrEnum):
    PROBLEM = "problem"
    """Something is not as it must be."""
    NOTE = "note"
    """Worth knowing, and as it may be."""


@dataclass(frozen=True, slots=True)
class Finding:
    severity: Severity
    path: str
    position: int | None  # byte in the file
    words: str


@dataclass(slots=True)
class Findings:
    """Collects. A file that is wrong all over is reported ten times, then counted."""

    found: list[Finding] = field(default_factory=list)
    problems: int = 0
    _per_file: Counter[str] = field(default_factory=Counter)

    def problem(self, path: str, position: int | None, words: str) -> None:
        self.problems += 1
        self._add(Finding(Severity.PROBLEM, path, position, words))

    def note(self, path: str, position: int | None, words: str) -> None:
        self._add(Finding(Severity.NOTE, path, position, words))

    def _add(self, finding: Finding) -> None:
        self._per_file[finding.path] += 1
        if self._per_file[finding.path] <= PER_FILE_MAX:
            self.found.append(finding)

    @property
    def left_out(self) -> dict[str, int]:
        """Findings beyond the first ten of a file, by file."""
        return {path: count - PER_FILE_MAX for path, count in self._per_file.items() if count > PER_FILE_MAX}
