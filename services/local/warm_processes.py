"""The launcher's side of `warm_start.py`: several services are forked from one process that has imported what they run."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from services.local import own_title
from services.local.cluster_plan import ProcessPlan

FORKED_WITHIN_S = 60.0
SETTINGS = "PENSTOCK_"
"""Other variables are read when an interpreter starts, by the C library and by packages when they are imported."""


@dataclass(frozen=True)
class Prepared:
    """A process that may be started: its directories are there."""

    plan: ProcessPlan
    environment: Mapping[str, str]
    log: Path


def start(wanted: Sequence[Prepared], *, directory: Path) -> dict[str, int]:
    """Starts services. Returns their pids by name. Those that are missing were not started, whatever the reason: also where the
    kernel has no room for twice the environment."""
    alike = _alike(wanted)
    if len(alike) < 2:
        return {}
    first = alike[0]
    room, padding = own_title.room_for([each.plan.argv for each in alike], [each.environment for each in alike])
    services = [
        {
            "name": each.plan.name,
            "argv": each.plan.argv,
            "environment": dict(each.environment),
            "log": str(each.log),
        }
        for each in alike
    ]
    try:
        program = subprocess.Popen(
            [first.plan.argv[0], "-m", "services.local.warm_start", *room],
            env=_shared(first) | padding,
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # a service that is not started so tells the same in its log
            start_new_session=True,
            encoding="utf-8",
        )
    except OSError:
        return {}
    try:
        output, _ = program.communicate(json.dumps(services), timeout=FORKED_WITHIN_S)
    except subprocess.TimeoutExpired:
        program.kill()
        output, _ = program.communicate()
    return {name: int(pid) for name, pid in (line.split() for line in output.splitlines())}


def _alike(wanted: Sequence[Prepared]) -> list[Prepared]:
    """Those that differ in their settings alone, and are started as services are."""
    services = [each for each in wanted if each.plan.argv[2:] == ("-m", f"services.{each.plan.role}")]
    return [each for each in services if _shared(each) == _shared(services[0]) and each.plan.argv[0] == services[0].plan.argv[0]]


def _shared(prepared: Prepared) -> dict[str, str]:
    return {name: value for name, value in prepared.environment.items() if not name.startswith(SETTINGS)}
