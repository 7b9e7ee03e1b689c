"""Story files: scenarios as text that anyone can read, as in raft's and pebble's data-driven tests.

A story is a file of steps, parted by empty lines. `#` begins a comment. A step is commands, a line `----`, and what they brought:

    append to=10
    pull node=2 log_end=10
    ----
    high watermark 10

`REWRITE=1 pytest …` writes what the code brings, for review with `git diff`.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

DIVIDER = "----"
REWRITE = os.environ.get("REWRITE") == "1"


@dataclass(frozen=True, slots=True)
class Command:
    """One line of a story: `verb name=value …`."""

    verb: str
    arguments: dict[str, str]

    def number(self, name: str, default: int | None = None) -> int:
        if name not in self.arguments and default is not None:
            return default
        return int(self.arguments[name])

    def numbers(self, name: str) -> tuple[int, ...]:
        return tuple(int(each) for each in self.arguments[name].split(",") if each)


Run = Callable[[Sequence[Command]], list[str]]
"""Carries out the commands of a step. Returns the lines that are below its divider."""


def check_story(path: Path, run: Run) -> None:
    """Fails with the first step that brings something else than its file says; with `REWRITE=1` writes the file anew."""
    written = []
    for step in path.read_text(encoding="utf-8").strip().split("\n\n"):
        if DIVIDER not in step:
            written.append(step)
            continue
        above, _, expected = step.partition(f"\n{DIVIDER}")
        commands = [command_of(line) for line in above.splitlines() if not line.startswith("#")]
        found = "\n".join(run(commands))
        if not REWRITE:
            assert found == expected.strip("\n"), f"{path.name}, after\n{above}"
        written.append(f"{above}\n{DIVIDER}\n{found}")
    if REWRITE:
        path.write_text("\n\n".join(written) + "\n", encoding="utf-8")


def command_of(line: str) -> Command:
    verb, *words = line.split()
    return Command(verb, dict(word.split("=", 1) for word in words))
