"""The rolling upgrade of a local cluster: each process that runs other code than the checkout's is restarted, one at a time.

A rollback is the same, from a checkout of the former version.
"""

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from services.local import processes
from services.local.asked_health import ask_health, is_elected
from services.local.cluster import FULL, Cluster, ProcessStatus
from services.local.cluster_health import HEALTHY, ClusterHealth
from services.local.cluster_plan import STOP_ORDER
from services.local.errors import LauncherError
from services.local.run_directory import LOG_DIRS, entries_of
from services.local.running_code import changed_at, runs_other_code

ORDER = ("controller", "storage", "node", "group_coordinator", "transaction_coordinator", "quota_manager", "gateway")
"""The order of roles: elections need a controller, coordinators load from storage nodes, and clients reconnect last. Versions
that are neighbours understand each other in any order, so a rollback has the same."""
ADDED = ("quota_manager",)
"""The roles that the former version lacks. An upgrade starts them in their turn."""
NO_PAUSE = ("controller", "quota_manager")
"""The roles without which clients go on."""
POLL_S = 0.2
TELL_AFTER_S = 10.0
HEALTHY_WITHIN_S = 600.0
"""A replica that was away for a restart may have much to fetch."""
SETTLES_WITHIN_S = 15.0
"""A replica that fell behind for a moment, or a process that has just started, is no reason to refuse."""
STOP_WITHIN_S = 30.0
"""A process drains for 20 s at most."""
NEXT = "`make status` says more. Mend it, then `make upgrade` goes on with the rest."

Say = Callable[[str], None]


def names_running_other_code(cluster: Cluster) -> list[str]:
    """The names of processes that run other code than the checkout's, in the order in which they are to be restarted."""
    return [status.plan.name for status in _running_other_code(cluster)]


def upgrade(cluster: Cluster, say: Say, *, force: bool = False) -> None:
    """Restarts what runs other code, and starts what the former version lacks.

    Raises LauncherError if the cluster is not healthy, or not so again after a step.

    A full disk is no reason to wait: nothing but room mends it, and the new code may need less. `force`: the cluster need only be
    no worse than before.
    """
    running = cluster.running()
    if not running:
        raise LauncherError(f"no process of the cluster in {cluster.run.path} runs: `make up` starts it with this code")
    for pid, name in running.items():
        if name.partition("-")[0] not in STOP_ORDER:
            say(f"{name} has a role that this version lacks. It runs on: `kill {pid}` ends it, and so does `make down`")
    waiting = _running_other_code(cluster)
    added = [plan.name for plan in cluster.plans.values() if plan.role in ADDED and cluster.pid_of(plan.name) is None]
    if not waiting and not added:
        say("all processes run this code already")
        return
    health = _health(cluster, added) if force else _settled_health(cluster, added, say)
    if health.verdict != HEALTHY:
        if not force and not health.only_full:
            raise LauncherError(
                f"an upgrade takes a healthy cluster, and nothing was restarted. It is {health.sentence}. "
                "Mend it; `make upgrade FORCE=1` restarts all the same"
            )
        say(f"the cluster is {health.sentence}. The upgrade goes on; clients wait where it takes one more replica away")
    for status in waiting:
        _refuse_moved_directories(cluster, status)
    for words in _pauses(cluster, waiting):
        say(words)
    names = sorted([*(status.plan.name for status in waiting), *added], key=lambda name: ORDER.index(cluster.plans[name].role))
    with cluster.warm(names) if len(names) > 1 else contextlib.nullcontext():
        for number, name in enumerate(names, 1):
            still_down = [each for each in added if each in names[number:]]
            told = _take_a_step(cluster, name, still_down, health if force else None, say)
            say(f"{told}; {number} of {len(names)})")


def _take_a_step(cluster: Cluster, name: str, still_down: Collection[str], no_worse_than: ClusterHealth | None, say: Say) -> str:
    """Restarts one process, or starts it. Returns what was done, and how long it took."""
    began = time.monotonic()
    runs = cluster.pid_of(name) is not None
    if not runs:
        cluster.start(name)
    elif cluster.restart(name, stop_within_s=STOP_WITHIN_S):
        say(f"{name} did not stop in time and was killed")
    begun = time.monotonic()
    cluster.wait_ready([name])
    ready = time.monotonic()
    now = _wait_healthy(cluster, name, still_down, no_worse_than, say)
    ended = time.monotonic()
    how = "healthy again" if now.verdict == HEALTHY else f"still {now.verdict}"
    steps = f"to stop {begun - began:.1f}, to be ready {ready - begun:.1f}, to be healthy {ended - ready:.1f}"
    return f"{name} {'restarted' if runs else 'started'} and the cluster {how} in {ended - began:.1f} s ({steps}"


def _health(cluster: Cluster, but: Collection[str]) -> ClusterHealth:
    """The health of the cluster as it is without the processes in `but`, which are still to be started."""
    return ask_health([status for status in cluster.status(with_memory=False) if status.plan.name not in but])


def _running_other_code(cluster: Cluster) -> list[ProcessStatus]:
    """Of the controllers, the elected one comes last: each change of it delays elections of leaders. Of the storage nodes, those
    with full disks come first, which the new code may mend before the others' turn."""
    changed = changed_at(cluster.root)
    pids = {plan.name: cluster.pid_of(plan.name) for plan in cluster.plans.values() if plan.role in ORDER}
    names = {name for name, pid in pids.items() if pid is not None and runs_other_code(pid, cluster.root, changed)}
    if not names:
        return []  # as a rule: then nobody needs to be asked who is elected
    statuses = [status for status in cluster.status(with_memory=False) if status.plan.name in names and status.pid is not None]
    return sorted(statuses, key=lambda status: (ORDER.index(status.plan.role), is_elected(status), FULL not in status.said))


def _refuse_moved_directories(cluster: Cluster, status: ProcessStatus) -> None:
    """Refuses log directories that are relative to another checkout: the process would come back without its data."""
    assert status.pid is not None
    directory = processes.working_directory(status.pid)
    given = processes.environment(status.pid).get(LOG_DIRS, "")
    relative = [entry for entry in entries_of(given) if not Path(entry).is_absolute()]
    if relative and directory is not None and directory != cluster.root.resolve():
        raise LauncherError(
            f"{LOG_DIRS} of {status.plan.name} names {', '.join(relative)}, which is relative to {directory}, where it runs: "
            "upgrade it there, or start it there with absolute paths first; nothing was restarted"
        )


def _pauses(cluster: Cluster, waiting: Sequence[ProcessStatus]) -> Iterator[str]:
    """Which restarts clients will notice, since no other process of that role takes over."""
    roles = [plan.role for plan in cluster.plans.values()]
    for status in waiting:
        if status.plan.role not in NO_PAUSE and roles.count(status.plan.role) == 1:
            yield f"{status.plan.name} is the only {status.plan.role.replace('_', ' ')}: its clients wait while it restarts"


def _settled_health(cluster: Cluster, added: Collection[str], say: Say) -> ClusterHealth:
    """How the cluster is before anything is restarted: as soon as it is well, or after a moment."""
    health = _health(cluster, added)
    if not _is_well(health, None):
        say(f"the cluster is {health.sentence}: the upgrade waits up to {SETTLES_WITHIN_S:.0f} s for it")
        health = _awaited_health(cluster, added, None, SETTLES_WITHIN_S, say)
    return health


def _wait_healthy(
    cluster: Cluster, name: str, still_down: Collection[str], no_worse_than: ClusterHealth | None, say: Say
) -> ClusterHealth:
    """Returns how the cluster then is. Raises LauncherError if it does not become well."""
    health = _awaited_health(cluster, still_down, no_worse_than, HEALTHY_WITHIN_S, say)
    if not _is_well(health, no_worse_than):
        raise LauncherError(f"{name} runs this code, and the cluster is {health.sentence}. {NEXT}")
    return health


def _awaited_health(
    cluster: Cluster, still_down: Collection[str], no_worse_than: ClusterHealth | None, within_s: float, say: Say
) -> ClusterHealth:
    """The health as soon as it is well, and whatever it is after `within_s`."""
    started = said_at = time.monotonic()
    while not _is_well(health := _health(cluster, still_down), no_worse_than):
        now = time.monotonic()
        if now > started + within_s:
            break
        if now > said_at + TELL_AFTER_S:
            said_at = now
            say(f"still waiting: {health.sentence}")
        time.sleep(POLL_S)
    return health


def _is_well(health: ClusterHealth, no_worse_than: ClusterHealth | None) -> bool:
    if health.verdict == HEALTHY or health.only_full:
        return True
    return no_worse_than is not None and health.is_no_worse_than(no_worse_than)
