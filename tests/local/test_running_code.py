"""Which processes run other code than a checkout holds."""

import subprocess
from pathlib import Path

from services.local.running_code import changed_at, runs_other_code

STARTS = 20
"""The kernel tells starts by the hundredth of a second, so one start alone would show a mistake in every second run."""


def test_a_process_that_starts_right_after_a_change_runs_the_changed_code(tmp_path: Path) -> None:
    (tmp_path / "services").mkdir()
    wrong = 0
    for _ in range(STARTS):
        (tmp_path / "services" / "new.py").write_text("", encoding="utf-8")
        with subprocess.Popen(["sleep", "60"], cwd=tmp_path) as started:
            wrong += runs_other_code(started.pid, tmp_path, changed_at(tmp_path))
            started.kill()
    assert wrong == 0
