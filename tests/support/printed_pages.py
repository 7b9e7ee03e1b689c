"""Pages of docs/ whose blocks run as they are printed: files are written, commands run in order, output is compared.

- A `bash` block is commands. All of a page's are one shell session in an empty folder. It ends at the first command that fails.
- A `text` block after it is what these commands print to stdout. `…` in it stands for any text within its line.
- Every other block is a file, whose first line is a comment with its name.

Nothing is replaced but the addresses of the cluster: 127.0.0.1:9092 to :9099 become the bootstrap port and those of the brokers.
"""

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from tests.support.printed_blocks import PRINTED_PORT, blocks_of

PRINTED_ADDRESS = re.compile(r"127\.0\.0\.1:(909[2-9])\b")
NAME = re.compile(r"^(?:#|//|<!--) (?P<name>[\w./-]+)(?: -->)?$")
END_OF_STEP = "=== end of step ==="


class InvalidPage(Exception):
    """A block that is neither commands, nor their output, nor a file with a name."""


@dataclass
class Step:
    """The commands of one block, and what they print; None: the page does not say."""

    commands: str
    output: str | None = None


@dataclass
class PrintedPage:
    files: dict[str, str] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)


def parse_page(markdown: str) -> PrintedPage:
    page = PrintedPage()
    previous: Step | None = None
    for language, text in blocks_of(markdown):
        if language == "bash":
            page.steps.append(previous := Step(text))
            continue
        if language == "text":
            if previous is None:
                raise InvalidPage(f"output that follows no commands: {text[:80]!r}")
            previous.output = text
        else:
            add_file(page, language, text)
        previous = None
    return page


def add_file(page: PrintedPage, language: str, text: str) -> None:
    first_line = text.partition("\n")[0]
    named = NAME.match(first_line)
    if named is None:
        raise InvalidPage(f"a {language or 'plain'} block begins with {first_line!r}, not with a comment that names its file")
    if named["name"] in page.files:
        raise InvalidPage(f"two blocks are {named['name']}")
    page.files[named["name"]] = text


def run_page(
    page: PrintedPage, folder: Path, bootstrap: str, *, timeout_s: float, environment: Mapping[str, str] | None = None
) -> None:
    """Runs it in that folder, against that cluster. Fails with the command's output, or with the first line that differs."""
    for name, text in page.files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(addressed(text, bootstrap), encoding="utf-8")
    script = "".join(f"{step.commands}echo; echo '{END_OF_STEP}'\n" for step in page.steps)
    done = subprocess.run(
        # `timeout` ends the commands' children, too.
        ["timeout", "--kill-after=10", f"{timeout_s}", "bash", "-e", "-o", "pipefail", "-c", addressed(script, bootstrap)],
        cwd=folder,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    printed = done.stdout.split(f"\n{END_OF_STEP}\n")
    for step, output in zip(page.steps, printed, strict=False):
        if step.output is not None:
            differences = "\n".join(differing_lines(addressed(step.output, bootstrap), output))
            assert not differences, f"{step.commands}{differences}\n{done.stderr[-2000:]}"


def addressed(text: str, bootstrap: str) -> str:
    """The text with the addresses of the cluster that has this bootstrap server."""
    host, _, port = bootstrap.rpartition(":")
    return PRINTED_ADDRESS.sub(lambda printed: f"{host}:{int(port) + int(printed[1]) - PRINTED_PORT}", text)


def differing_lines(expected: str, printed: str) -> Iterator[str]:
    for number, (line, other) in enumerate(zip_longest(expected.splitlines(), printed.splitlines()), 1):
        if line is None or other is None or not re.fullmatch(".*".join(map(re.escape, line.split("…"))), other):
            yield f"line {number}: the page has {line!r}, printed was {other!r}"
