"""The set-up of the users of SECURITY=on's etcd, by `python -m services.controller.etcd_users`: the work needs the libraries."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from services.local.cluster import Cluster
from services.local.etcd_protection import ROOT, settings_of
from services.local.recovery import run_module

MODULE: Final = "services.controller.etcd_users"
KEPT: Final = "no permission is taken away"
"""What the program says where it does not do what `revoke` asks for."""


def set_up_users(cluster: Cluster, *, python: Path, say: Callable[[str], None], revoke: bool = False) -> None:
    """Has the etcd that runs know its users and what they may do, and serve nobody else. Raises LauncherError.

    `revoke`: also takes away what they may do beyond what this version needs, unless a process runs that needs something else.
    """
    arguments = ["set-up", "--etcd", cluster.shape.etcd_endpoint(), *(["--revoke-unneeded"] if revoke else [])]
    told = run_module(MODULE, arguments, python=python, root=cluster.root, environment=settings_of(cluster.run, ROOT))
    *changes, last = told.splitlines()
    for line in changes:
        if line.startswith(KEPT):
            say(line)
    if changes:
        say(last)
