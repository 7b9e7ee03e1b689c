"""What an audit's report means for the pinned packages. pip-audit itself passes where it could ask about no package at all."""

from collections.abc import Mapping
from typing import Any, Final

from libs.lean_dataclass import dataclass

ACCEPTED: Final[Mapping[str, str]] = {}
"""Advisories, by their id, that do not concern Penstock, and why."""


@dataclass(frozen=True, slots=True)
class Verdict:
    passed: bool
    lines: tuple[str, ...]


def verdict(
    report: Mapping[str, Any], pins: Mapping[str, str], accepted: Mapping[str, str] = ACCEPTED, *, is_whole: bool = True
) -> Verdict:
    """Judges pip-audit's report in its form `json`. It passes if each pin was audited, and has no advisory that is not accepted.

    `is_whole`: the pins are all there are, so an accepted advisory that is not reported is of no more use.
    """
    audited = {entry["name"]: entry for entry in report["dependencies"] if "skip_reason" not in entry}
    missing = sorted(name for name in pins if normalized(name) not in audited)
    open_lines, seen = [], set()
    for name, entry in sorted(audited.items()):
        for found in entry["vulns"]:
            ids = {found["id"], *found["aliases"]}
            seen |= ids
            if not ids & accepted.keys():
                fixes = ", ".join(found["fix_versions"]) or "none"
                open_lines.append(f"{name} {entry['version']}: {found['id']}, fixed in {fixes}")
    unused = sorted(accepted.keys() - seen) if is_whole and not missing else []
    lines = [
        *open_lines,
        *[f"{each}: accepted, and no longer reported: remove it from ACCEPTED" for each in unused],
        *([f"not audited, since the registry told nothing about them: {', '.join(missing)}"] if missing else []),
        f"{len(pins) - len(missing)} of {len(pins)} packages audited, {len(open_lines)} open advisories",
    ]
    return Verdict(not (open_lines or missing or unused), tuple(lines))


def normalized(name: str) -> str:
    """A package's name as the registry compares it (PEP 503)."""
    return "-".join(part for part in name.lower().replace("_", "-").replace(".", "-").split("-") if part)
