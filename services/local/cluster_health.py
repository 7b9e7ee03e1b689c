"""The health of a local cluster: what its processes say of it, and which of them do not run. Pure."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from services.local.cluster import FULL, ProcessStatus

SAID_MAX = 200
"""The characters of what a process says that are shown. A path may be in it."""
STORAGE_NODE = re.compile(r"\bstorage-(\d+)\b")
HEALTHY, DEGRADED, OFFLINE, UNKNOWN, STOPPED = "healthy", "degraded", "offline", "unknown", "stopped"


@dataclass(frozen=True)
class ClusterHealth:
    """`said` is the answer of a process at `/health`; None: nobody answered."""

    verdict: str
    sentence: str
    said: dict[str, Any] | None
    only_full: bool = False
    """Whether all that is wrong are storage nodes whose disks are full, with their replicas behind."""
    storage_role: str = "storage"
    """How the names of the processes begin that hold records, as `make status` shows them: `storage` or `node`."""

    def is_no_worse_than(self, before: "ClusterHealth") -> bool:
        """Whether nothing is wrong that was not so before, as far as the processes tell."""
        if before.said is None:
            return True
        if self.said is None or self.verdict == UNKNOWN:
            return before.verdict == UNKNOWN
        more = any(count > before.said["counts"][name] for name, count in self.said["counts"].items())
        return not more and set(self.said.get("storage_nodes_away", ())) <= set(before.said.get("storage_nodes_away", ()))

    @property
    def since(self) -> str:
        """When the verdict became this one, in local time. Empty: the processes that answer have not seen it change."""
        since_ms = self.said.get("since_ms") if self.said is not None and self.said["verdict"] == self.verdict else None
        return "" if since_ms is None else f"{self.verdict} since {datetime.fromtimestamp(since_ms / 1000):%Y-%m-%d %H:%M:%S}"

    @property
    def details(self) -> str:
        """Counts of partitions, in one line. Empty: nobody told them."""
        if self.said is None or not self.said["leaders"]:
            return ""
        counts = self.said["counts"]
        leaders = ", ".join(f"{self.storage_role}-{node_id} {count}" for node_id, count in self.said["leaders"].items())
        old = " (old)" if self.said["verdict"] == UNKNOWN else ""
        return (
            f"partitions{old}: {counts['offline']} offline, {counts['under_min_isr']} below min.insync.replicas, "
            f"{counts['under_replicated']} under-replicated, {self.said['moving']} moving; leaders: {leaders}"
        )


def health_of(statuses: Sequence[ProcessStatus], answers: Iterable[str]) -> ClusterHealth:
    """`answers`: what processes say at `/health`. The first that knows the metadata counts, and none after it is asked for: the
    elected controller's should come first."""
    if all(status.pid is None for status in statuses):
        return ClusterHealth(STOPPED, f"{STOPPED}: no process runs; `make up` starts them", None)
    said = _first_known(answers)
    verdict = said["verdict"] if said is not None else UNKNOWN
    clauses = [said["sentence"].partition(": ")[2]] if said is not None else ["no process tells the state of the cluster"]
    down = [status.plan.name for status in statuses if status.pid is None]
    storage_role = "node" if any(status.plan.role == "node" for status in statuses) else "storage"
    # The cluster knows of storage nodes only, and not in which process each is.
    clauses = [STORAGE_NODE.sub(rf"{storage_role}-\1", clause) for clause in clauses]
    named = [f"{storage_role}-{node_id}" for node_id in said.get("storage_nodes_away", ())] if said is not None else []
    waiting = [status for status in statuses if status.pid is not None and not status.ready]
    if unnamed := [name for name in down if name not in named]:
        clauses.append(f"{', '.join(unnamed)} {'does' if len(unnamed) == 1 else 'do'} not run (`make up`)")
    elif down:
        clauses.append(f"`make up` starts {', '.join(down)}")
    clauses += [f"{status.plan.name} is not ready ({status.said[:SAID_MAX]})" for status in waiting]
    if verdict == HEALTHY and (down or waiting):
        verdict = DEGRADED
    words = ", ".join(clause for clause in clauses if clause)
    only_full = said is not None and said.get("only_full", False) and not down and all(FULL in each.said for each in waiting)
    return ClusterHealth(verdict, f"{verdict}: {words}" if words else verdict, said, only_full, storage_role)


def _first_known(answers: Iterable[str]) -> dict[str, Any] | None:
    """Else the first that knows how the cluster was."""
    old = None
    for text in answers:
        try:
            said = json.loads(text)
        except ValueError:
            continue
        if isinstance(said, dict) and said.get("verdict") in (HEALTHY, DEGRADED, OFFLINE):
            return said
        if old is None and isinstance(said, dict) and said.get("leaders"):
            old = said
    return old
