"""Which of several interpreters makes .venv."""

import os
import sys
from pathlib import Path

import pytest

from services.local import interpreters
from services.local.interpreters import NAME, choose, quickest


def chosen(current: float | None, **others: float | None) -> tuple[str, list[str]]:
    said: list[str] = []
    times = {"first": current, **others}
    return quickest("first", list(others), lambda python: times[python], said.append), said


def test_the_first_on_path_is_taken_unless_another_is_clearly_faster() -> None:
    assert chosen(1.0) == ("first", [])
    assert chosen(1.0, second=0.95) == ("first", [])
    python, said = chosen(1.0, second=0.85, third=0.88)
    assert python == "second"
    assert said == ["python: second, which takes 85% of the time of first (make PYTHON=first takes that one)"]


def test_an_interpreter_that_cannot_be_used_is_passed_over() -> None:
    assert chosen(1.0, second=None) == ("first", [])
    assert chosen(None, second=1.0)[0] == "first"  # it runs this, so it has the last word


def test_what_a_user_has_chosen_is_not_compared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    timed: list[str] = []

    def seconds(python: str) -> float:
        timed.append(python)
        return 1.0 if python == sys.executable else 0.5

    monkeypatch.setattr(interpreters, "loop_seconds", seconds)
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    shim, other = tmp_path / "here" / NAME, tmp_path / "there" / NAME
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n', encoding="utf-8")
    other.write_text("#!/bin/sh\necho /another/python\n", encoding="utf-8")
    for script in (shim, other):
        script.chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join(str(tmp_path / name) for name in ("here", "there")))
    assert choose(lambda line: None) == str(tmp_path / "there" / NAME)
    monkeypatch.setenv("PYTHON_GIVEN", "yes")
    timed.clear()
    assert choose(lambda line: None) == sys.executable
    monkeypatch.delenv("PYTHON_GIVEN")
    monkeypatch.setenv("PATH", str(tmp_path / "there"))  # another one than the first on PATH runs this
    assert choose(lambda line: None) == sys.executable
    assert timed == []


def test_the_loop_runs_in_this_interpreter() -> None:
    seconds = interpreters.loop_seconds(sys.executable)
    assert seconds is not None
    assert seconds > 0
    assert interpreters.loop_seconds("/nowhere/python") is None
