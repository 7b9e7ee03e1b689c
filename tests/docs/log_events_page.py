"""Writes docs/operate/log-events.md: each log event of level warning or above, from the code, with what to do about it.

`python -m tests.docs.log_events_page [--check]`
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from services.gateway.protocol_docs.protocol_page import write_page
from tests.docs.house_rules import ROOT
from tests.docs.log_advice.advice import Advice
from tests.docs.log_advice.controller import CONTROLLER
from tests.docs.log_advice.faults import FAULTS
from tests.docs.log_advice.gateways_and_coordinators import COORDINATORS, GATEWAY
from tests.docs.log_advice.logs_on_disk import LOGS
from tests.docs.log_advice.processes import PROCESSES
from tests.docs.log_advice.storage import STORAGE
from tests.docs.log_lines import SERVICES, Line, services_by_module, worst_level, written_lines
from tests.docs.syntax_trees import many_trees

PAGE: Final[Path] = ROOT / "docs" / "operate" / "log-events.md"

_TOP = """# Log events

Made by `python -m tests.docs.log_events_page` from the code and `tests/docs/log_advice/`; do not edit.

Every event of level `warning`, `error` or `critical` that a process can log, and what to do about it. `…` stands for a name, a
path or a number. The fields of a line (`path=`, `reason=`) tell the rest. Where a line has `way_out`, follow it first.

```
grep -hE 'level=(warning|error|critical)' .run/logs/*.log
```

What clients show, and which lines belong to it: [troubleshooting](../use/troubleshooting.md). How lines are bounded:
[logs and views](logs-and-views.md).
"""

_FAULTS = """
## Faults of Penstock

These come with a traceback in `trace`, and have one action: report the line with its trace. The last column says what the
process does meanwhile.

| event | level | service | meanwhile |
|---|---|---|---|
"""

SECTIONS: Final[Mapping[str, Mapping[str, Advice]]] = {
    "Every process": PROCESSES,
    "Controller": CONTROLLER,
    "Gateway": GATEWAY,
    "Coordinators": COORDINATORS,
    "Storage node: disks, replicas and upkeep": STORAGE,
    "Storage node: logs that are opened": LOGS,
}


def events_with_rows() -> list[str]:
    return [event for section in (*SECTIONS.values(), FAULTS) for event in section]


def page() -> str:
    with many_trees():
        lines, services = written_lines(), services_by_module()
    parts = [_TOP]
    for title, section in SECTIONS.items():
        parts.append(f"\n## {title}\n\n| event | level | service | meaning | what to do |\n|---|---|---|---|---|\n")
        parts.extend(_rows(section, lines, services))
    parts.append(_FAULTS)
    for event, goes_on in sorted(FAULTS.items()):
        parts.append(f"{_beginning(event, lines, services)} {goes_on} |\n")
    return "".join(parts)


def _rows(
    section: Mapping[str, Advice], lines: Mapping[str, Sequence[Line]], services: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    for event, advice in sorted(section.items()):
        yield f"{_beginning(event, lines, services)} {advice.meaning} | {advice.action} |\n"


def _beginning(event: str, lines: Mapping[str, Sequence[Line]], services: Mapping[str, Sequence[str]]) -> str:
    found = lines.get(event, ())
    level = worst_level(found) if found else "none"
    return f"| `{event}` | {level} | {_names({service for line in found for service in services[line.module]})} |"


def _names(services: set[str]) -> str:
    if services == set(SERVICES):
        return "all"
    return ", ".join(service.replace("_", " ") for service in SERVICES if service in services)


if __name__ == "__main__":
    sys.exit(write_page(PAGE, page, "tests.docs.log_events_page"))
