"""Backups of a local cluster's metadata, and the new metadata store that is filled from one, or from what storage nodes hold.

The work needs the libraries, so `python -m services.controller.recovery` does it.
"""

import itertools
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from services.local import etcd_protection
from services.local.cluster import Cluster
from services.local.errors import LauncherError
from services.local.run_directory import LOG_DIRS, RunDirectory

COMMAND_WITHIN_S = 900
FAILED = "-failed"
NEXT = (
    "`make up` starts the cluster. Each partition waits until all its replicas have told what they hold; "
    "the most complete one leads."
)


def backup(
    cluster: Cluster, file: Path, *, with_credentials: bool = False, python: Path, root: Path, say: Callable[[str], None]
) -> None:
    """Saves the metadata while etcd runs, and users' SCRAM credentials if asked."""
    if cluster.pid_of("etcd") is None:
        raise LauncherError(f"etcd of the cluster in {cluster.run.path} does not run: `make up` first")
    asked = ["--with-credentials"] if with_credentials else []
    arguments = ["backup", *asked, "--etcd", cluster.shape.etcd_endpoint(), str(file)]
    say(_command(arguments, python=python, root=root, environment=_access_to(cluster)))


def restore(cluster: Cluster, file: Path, users: Path | None, *, python: Path, root: Path, say: Callable[[str], None]) -> None:
    """Fills a new etcd from a backup, and adds the users of a file if there is one. The old one's data is kept."""
    refuse_if_running(cluster)
    arguments = ["restore", *_adding(users), "--etcd", cluster.shape.etcd_endpoint(), str(file)]
    access = _access_to(cluster)
    fill_new_etcd(cluster, lambda: _command(arguments, python=python, root=root, environment=access), say)


def rebuild(
    cluster: Cluster,
    file: Path | None,
    users: Path | None,
    *,
    dry_run: bool,
    python: Path,
    root: Path,
    say: Callable[[str], None],
) -> None:
    """Fills a new etcd from the disks of all storage nodes, and from a backup and a file of users if there are any. The old one's
    data is kept."""
    refuse_if_running(cluster)
    sources = [*storage_nodes(cluster.run), *([str(file)] if file is not None else [])]
    if not sources:
        raise LauncherError(f"no storage node has data in {cluster.run.data}: there is nothing to rebuild from")
    # This comes first also where etcd is to be filled: what cannot be rebuilt changes nothing.
    found = _command(["rebuild", *_adding(users), "--dry-run", *sources], python=python, root=root)
    if dry_run:
        say(found)
        return
    arguments = ["rebuild", *_adding(users), "--etcd", cluster.shape.etcd_endpoint(), *sources]
    access = _access_to(cluster)
    fill_new_etcd(cluster, lambda: _command(arguments, python=python, root=root, environment=access), say)


def _access_to(cluster: Cluster) -> dict[str, str]:
    """By which a command works on etcd as a controller."""
    user = etcd_protection.user_of("controller")
    return etcd_protection.settings_of(cluster.run, user) if cluster.etcd_tls else {}


def add_users(cluster: Cluster, users: Path, *, python: Path, root: Path, say: Callable[[str], None]) -> None:
    """Gives a cluster that is there the users of a file. Nothing else runs meanwhile."""
    refuse_if_running(cluster)
    cluster.run.create()
    try:
        cluster.start("etcd")
        cluster.wait_ready(["etcd"])
        arguments = ["add-users", "--etcd", cluster.shape.etcd_endpoint(), str(users)]
        say(_command(arguments, python=python, root=root, environment=_access_to(cluster)))
    finally:
        stop_etcd(cluster)


def _adding(users: Path | None) -> list[str]:
    return [] if users is None else ["--add-scram-file", str(users)]


def storage_nodes(run: RunDirectory) -> list[str]:
    """Each storage node with data, as the command takes it."""
    names = [f"storage-{node_id}" for node_id in run.storage_nodes()]
    log_dirs = {name: run.place_of(name, {}).get(LOG_DIRS, "") for name in names}
    return [f"{run.data_directory(name)}={log_dirs[name]}" if log_dirs[name] else f"{run.data_directory(name)}" for name in names]


def refuse_if_running(cluster: Cluster) -> None:
    """One that runs on would keep to the metadata that it has."""
    if running := sorted(set(cluster.running().values())):
        raise LauncherError(f"{', '.join(running)} of the cluster in {cluster.run.path} still run: `make down` first")


def fill_new_etcd(cluster: Cluster, fill: Callable[[], str], say: Callable[[str], None]) -> None:
    """Runs `fill` beside an empty etcd, which is stopped afterwards, and then says what it returned. If it fails, the old etcd's
    data is back in its place, and of the new one's that of the last failure is kept. What `say` raises undoes nothing: whoever
    listens may be gone."""
    cluster.run.create()
    data = cluster.run.data_directory("etcd")
    aside = _unused(data.with_name(f"etcd-before-{time.strftime('%Y%m%d-%H%M%S')}"))
    had_data = data.exists()
    if had_data:
        data.rename(aside)
    try:
        cluster.start("etcd")
        cluster.wait_ready(["etcd"])
        filled = fill()
    except BaseException:
        stop_etcd(cluster)
        former = list(data.parent.glob(f"etcd-before-*{FAILED}"))
        if data.exists():
            data.rename(_unused(data.with_name(f"{aside.name}{FAILED}")))
        if had_data:
            aside.rename(data)
        for directory in former:
            shutil.rmtree(directory)
        raise
    stop_etcd(cluster)
    say(filled)
    if had_data:
        say(f"the former etcd's data is in {aside}; remove it once nobody misses it")
    say(NEXT)


def _unused(path: Path) -> Path:
    """The path, with a number if two come in a second."""
    stem, failed = path.name.removesuffix(FAILED), FAILED if path.name.endswith(FAILED) else ""
    candidates = (path.with_name(f"{stem}-{number}{failed}") for number in itertools.count(2))
    return path if not path.exists() else next(each for each in candidates if not each.exists())


def stop_etcd(cluster: Cluster) -> None:
    if cluster.pid_of("etcd") is not None:
        cluster.kill("etcd", signal.SIGTERM)


def _command(arguments: Sequence[str], *, python: Path, root: Path, environment: Mapping[str, str] = MappingProxyType({})) -> str:
    return run_module("services.controller.recovery", arguments, python=python, root=root, environment=environment)


def run_module(
    module: str, arguments: Sequence[str], *, python: Path, root: Path, environment: Mapping[str, str] = MappingProxyType({})
) -> str:
    """The output of `python -m MODULE`. `environment` comes on top of the own one. Raises LauncherError with what
    it said if it fails."""
    argv = [str(python), "-m", module, *arguments]
    try:
        done = subprocess.run(
            argv,
            cwd=root,
            env={**os.environ, "PYTHONIOENCODING": "utf-8", **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=COMMAND_WITHIN_S,
        )
    except subprocess.TimeoutExpired as error:
        raise LauncherError(f"{' '.join(argv[1:4])} took more than {COMMAND_WITHIN_S:.0f} s, and was killed") from error
    if done.returncode != 0:
        raise LauncherError(done.stderr.strip()[-2000:] or f"{' '.join(argv[1:4])} failed")
    return done.stdout.rstrip()
