"""Refuses a start whose ports are another's, before anything is started."""

from collections.abc import Iterable
from pathlib import Path

from services.local import probe, processes
from services.local.cluster_plan import ProcessPlan
from services.local.cluster_shape import Shape
from services.local.errors import LauncherError
from services.local.run_directory import RunDirectory


def refuse_shared(shape: Shape, run: RunDirectory) -> None:
    """Refuses ports that a running cluster has for processes that it may yet start."""
    marks = processes.find_by_argument(lambda argument: argument.startswith("-Xpenstock="))
    others = {Path(mark.partition("@")[2]) for _, mark in marks} - {run.path}
    for other in sorted(others):
        try:
            theirs = RunDirectory(other).read_shape()
        except LauncherError:
            continue
        if theirs is not None and shape.ports.start < theirs.ports.stop and theirs.ports.start < shape.ports.stop:
            taken = f"{theirs.ports.start} to {theirs.ports.stop - 1}"
            raise LauncherError(
                f"the cluster in {other} has the ports {taken}, and this one would take {shape.ports.start} to "
                f"{shape.ports.stop - 1}; choose another PORT="
            )


def refuse_taken(plans: Iterable[ProcessPlan], *, kept: bool = False) -> None:
    """Refuses ports on which something listens. `kept`: nodes that run may keep the clients' ports of others, and return them."""
    for plan in plans:
        for port in plan.ports:
            if kept and plan.role == "node" and port != plan.probe_port:
                continue
            if not probe.is_free(port):
                holder = probe.holder_of(port)
                raise LauncherError(
                    f"port {port}, which {plan.name} needs, is in use by {holder}; stop that or choose another PORT="
                )
