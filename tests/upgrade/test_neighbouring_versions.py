"""What the former version writes, this one reads, and the other way round: RPC contracts, and records of the metadata store.

Both run at the same time during an upgrade, and during a rollback. Fields are only added, at the end, with a default.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.previous_version import previous_python, previous_source
from tests.support.requirements import ROOT, require

PROGRAM = Path(__file__).parent / "programs" / "forms.py"
WITHIN_S = 60.0


class Version:
    """The wire forms of one version, in a process of its own."""

    def __init__(self, source: Path, python: Path) -> None:
        self._source, self._python = source, python
        self.written: dict[str, dict[str, Any]] = self._run("write")

    def read(self, other: "Version") -> dict[str, list[Any]]:
        """What this version reads of the other's examples."""
        return self._run("read", json.dumps({name: each["forms"] for name, each in other.written.items()}))

    def _run(self, command: str, text: str = "") -> Any:
        environment = {**os.environ, "PYTHONPATH": str(self._source)}
        argv = [str(self._python), str(PROGRAM), command]
        done = subprocess.run(
            argv, env=environment, input=text, capture_output=True, encoding="utf-8", timeout=WITHIN_S, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def former() -> Version:
    require("previous")
    source = previous_source()
    return Version(source, previous_python(source))


@pytest.fixture(scope="module")
def ours() -> Version:
    return Version(ROOT, Path(sys.executable))


def differences(written: Any, found: Any, where: str) -> list[str]:
    """Where a value was read otherwise than it was written. One side may lack fields that the other has at the end."""
    if isinstance(written, dict) and isinstance(found, dict):
        common = min(len(written), len(found))
        if list(written)[:common] != list(found)[:common]:
            return [f"{where}: fields {list(written)} were read as {list(found)}"]
        names = list(written)[:common]
        return [each for name in names for each in differences(written[name], found[name], f"{where}.{name}")]
    if isinstance(written, list) and isinstance(found, list) and len(written) == len(found):
        pairs = enumerate(zip(written, found, strict=True))
        return [each for at, (one, other) in pairs for each in differences(one, other, f"{where}[{at}]")]
    return [] if written == found else [f"{where}: {written!r} was read as {found!r}"]


def misread(reader: Version, writer: Version) -> list[str]:
    read = reader.read(writer)
    both = writer.written.keys() & read.keys()
    return [each for name in sorted(both) for each in differences(writer.written[name]["values"], read[name], name)]


def test_this_version_reads_what_the_former_one_writes(former: Version, ours: Version) -> None:
    assert misread(ours, former) == []


def test_the_former_version_reads_what_this_one_writes(former: Version, ours: Version) -> None:
    assert misread(former, ours) == []


def test_nothing_that_the_former_version_sends_is_gone(former: Version, ours: Version) -> None:
    assert len(former.written) > 80
    assert former.written.keys() - ours.written.keys() == set()


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": [1]}, {"a": [1, 2]}),
        ({"a": 1}, "ContractError: C.b: expected at least 2 fields"),
        ({"a": {"b": 7}}, {"a": {"b": 8}}),
    ],
)
def test_a_field_that_moved_grew_or_became_required_is_a_difference(written: Any, found: Any) -> None:
    assert len(differences(written, found, "C")) == 1


def test_a_field_that_was_added_at_the_end_is_none() -> None:
    assert differences({"a": 1}, {"a": 1, "b": 0}, "C") == differences({"a": 1, "b": 7}, {"a": 1}, "C") == []
