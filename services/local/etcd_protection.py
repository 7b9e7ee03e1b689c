"""TLS and users of the etcd of SECURITY=on: what it is started with, and by which certificate each process is its user."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from services.local import processes
from services.local.cluster_shape import SECURED, Shape
from services.local.run_directory import RunDirectory

ROLES: Final = ("controller", "storage", "gateway", "node", "group_coordinator", "transaction_coordinator", "quota_manager")
ROOT: Final = "root"
CA_FILE: Final = "PENSTOCK_ETCD_CA_FILE"
PLAIN: Final = "--listen-client-urls=http://"
LATER: Final = (
    "etcd and what uses it run without TLS, as an earlier version started them: `make down`, then `make up` protects them "
    "(docs/security.md, One word)"
)


def user_of(role: str) -> str:
    """As `libs/cluster/etcd/access.py` names it."""
    return f"penstock-{role}"


USERS: Final = (ROOT, *map(user_of, ROLES))


def has_tls(shape: Shape, run: RunDirectory) -> bool:
    """Whether etcd has, or is to be started with it: what an earlier version started goes on without until all is stopped. An
    etcd that runs has it, also where its certificate was lost since."""
    if shape.security != SECURED or _runs_without(run):
        return False
    return (run.security / "etcd.pem").exists() or runs_with_tls(run)


def runs_with_tls(run: RunDirectory) -> bool:
    """Whether an etcd runs that has read its authority: it does so only when it starts."""
    _, argv = _running(run, run.pid_file("etcd"))
    return bool(argv) and not any(argument.startswith(PLAIN) for argument in argv)


def _runs_without(run: RunDirectory) -> bool:
    for file in run.pids.glob("*.pid"):
        pid, argv = _running(run, file)
        if not argv:
            continue
        if file.stem == "etcd":
            if any(argument.startswith(PLAIN) for argument in argv):
                return True
        elif file.stem.rpartition("-")[0] in ROLES and CA_FILE not in processes.environment(pid):
            return True
    return False


def _running(run: RunDirectory, file: Path) -> tuple[int, list[str]]:
    """The process of a pid file, and its command line, which is empty if it has ended."""
    pid = processes.read_pid(file)
    argv = processes.command_line(pid) if pid is not None else []
    if pid is None or not any(str(run.path) in argument for argument in argv):
        return 0, []
    return pid, list(argv)


def settings_of(run: RunDirectory, user: str) -> dict[str, str]:
    """The files by which a process is that user."""
    own = str(run.security / f"etcd-{user}.pem")
    return {CA_FILE: str(run.security / "etcd-ca.pem"), "PENSTOCK_ETCD_CERT_FILE": own, "PENSTOCK_ETCD_KEY_FILE": own}


def arguments_of(run: RunDirectory, metrics: str) -> list[str]:
    """etcd's flags of TLS. `metrics`: the address where it says how it is, since whoever asks there has no certificate."""
    own, authority = run.security / "etcd.pem", run.security / "etcd-ca.pem"
    flags: Mapping[str, Path] = {"cert-file": own, "key-file": own, "trusted-ca-file": authority}
    return [
        *(f"--{side}{name}={path}" for side in ("", "peer-") for name, path in flags.items()),
        "--client-cert-auth",
        "--peer-client-cert-auth",
        f"--listen-metrics-urls=http://{metrics}",
    ]
