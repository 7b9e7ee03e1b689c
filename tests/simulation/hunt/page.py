"""The figures of the last long hunt in docs/simulation.md."""

import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from tests.simulation.hunt.turns import Figures
from tests.support.requirements import ROOT

PAGE = ROOT / "docs" / "simulation.md"
MINUTES_MIN = 10.0
"""A shorter hunt proves little, and leaves the page as it is."""
_BEGIN, _END = "<!-- written by make hunt -->\n", "<!-- end of what make hunt writes -->\n"


def table(figures: Figures) -> str:
    lines = ["| kind | seeds | minutes of CPU | failed |", "|---|--:|--:|---|"]
    for kind, seeds in figures.seeds.items():
        failed = ", ".join(map(str, figures.failed.get(kind, {}))) or "none"
        lines.append(f"| {kind} | {seeds:,} | {figures.cpu_s[kind] / 60:.1f} | {failed} |")
    return "\n".join(lines) + "\n"


def write_figures(figures: Figures, minutes: float, page: Path = PAGE) -> None:
    heading = f"The last hunt: `make hunt MINUTES={minutes:g}`, {datetime.now(UTC):%d %B %Y}, at commit {_commit()}.\n\n"
    written, before = _BEGIN + heading + table(figures) + _END, page.read_text(encoding="utf-8")
    text, count = re.subn(f"{_BEGIN}.*?{_END}", lambda _: written, before, flags=re.DOTALL)
    assert count == 1, f"{page} lacks the lines between which the figures stand"
    page.write_text(text, encoding="utf-8")


def _commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
    return done.stdout.strip() or "unknown"
