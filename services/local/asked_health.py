"""The health of a local cluster, asked of its processes."""

from collections.abc import Iterator, Sequence

from services.local import probe, processes
from services.local.cluster import ProcessStatus
from services.local.cluster_health import ClusterHealth, health_of

ANSWERS_WITHIN_S = 2.0
TOKEN_FILE = "PENSTOCK_ADMIN_TOKEN_FILE"


def ask_health(statuses: Sequence[ProcessStatus]) -> ClusterHealth:
    parts = [status for status in statuses if status.plan.is_part]
    return health_of(parts, _answers(parts))


def is_elected(status: ProcessStatus) -> bool:
    return "active controller" in status.said


def _answers(statuses: Sequence[ProcessStatus]) -> Iterator[str]:
    """The answers at `/health`, each asked for when it is taken; that of the elected controller comes first."""
    asked = [status for status in statuses if status.pid is not None and status.plan.is_service]
    for status in sorted(asked, key=lambda status: not is_elected(status)):
        plan = status.plan
        token = _token_of(status.pid) if status.pid is not None else ""
        yield probe.ask(plan.probe_port, "/health", timeout_s=ANSWERS_WITHIN_S, host=plan.probe_host, token=token)[1]


def _token_of(pid: int) -> str:
    """The token of a process's admin port, if it was given one. Empty, if it cannot be read: then the port says what is wrong."""
    file, directory = processes.environment(pid).get(TOKEN_FILE, ""), processes.working_directory(pid)
    if not file or directory is None:
        return ""
    try:
        return (directory / file).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
