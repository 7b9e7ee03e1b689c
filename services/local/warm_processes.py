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
    services = [asked_of(each) for each in alike]
    try:
        program = subprocess.Popen(
            [first.plan.argv[0], "-m", "services.local.warm_start", *room],
            env=shared(first.environment) | padding,
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


def asked_of(prepared: Prepared) -> dict[str, object]:
    """What the program is told of a service: `warm_start.Service`, as JSON."""
    return {
        "name": prepared.plan.name,
        "argv": prepared.plan.argv,
        "environment": dict(prepared.environment),
        "log": str(prepared.log),
    }


def is_plain(plan: ProcessPlan) -> bool:
    """Whether it is started as services are."""
    return plan.argv[2:] == ("-m", f"services.{plan.role}")


def shared(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables in which services may not differ that come from one process."""
    return {name: value for name, value in environment.items() if not name.startswith(SETTINGS)}


def _alike(wanted: Sequence[Prepared]) -> list[Prepared]:
    """Those that differ in their settings alone, and are started as services are."""
    services = [each for each in wanted if is_plain(each.plan)]
    return [each for each in services if _origin(each) == _origin(services[0])]


def _origin(prepared: Prepared) -> tuple[str, dict[str, str]]:
    return prepared.plan.argv[0], shared(prepared.environment)
