"""The command `penstock`: it runs one of Penstock's programs in this process."""

import gc
import io
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from . import put_packages_on_path

PROGRAMS: Final[Mapping[str, tuple[str, str]]] = {
    "dev": ("services.dev", "a whole cluster in one process, for development"),
    "controller": ("services.controller", "a controller"),
    "storage": ("services.storage", "a storage node"),
    "gateway": ("services.gateway", "a gateway"),
    "group-coordinator": ("services.group_coordinator", "a coordinator of consumer groups"),
    "transaction-coordinator": ("services.transaction_coordinator", "a coordinator of transactions"),
    "quota-manager": ("services.quota_manager", "a manager of client quotas"),
    "recovery": ("services.controller.recovery", "saves and restores the metadata in etcd"),
    "log": ("libs.commitlog", "shows and verifies log directories"),
}
"""The module of each program, and what it is."""
EXTRAS: Final = ("controller", "storage", "gateway", "group-coordinator", "transaction-coordinator", "quota-manager")
OF_A_CLUSTER: Final = (*EXTRAS, "recovery")
ETCD_CLIENT: Final = ("grpc", "etcd3")
HELP: Final = ("-h", "--help", "help")


def main(arguments: Sequence[str] | None = None) -> int:
    if arguments is None and isinstance(sys.stdout, io.TextIOWrapper):  # a locale may lack an ellipsis, or a character of a path
        sys.stdout.reconfigure(errors="backslashreplace")
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in HELP:
        print(usage())
        return 0 if words else 2
    if words[0] in ("-V", "--version"):
        from importlib.metadata import version

        print(f"penstock {version('penstock')}")
        return 0
    name = words[0]
    if name not in PROGRAMS:
        print(f"penstock: there is no program {name!r}; expected one of {', '.join(PROGRAMS)}", file=sys.stderr)
        return 2
    if name in EXTRAS and words[1:2] and words[1] in HELP:
        print(f"penstock {name} runs {PROGRAMS[name][1]}. It takes no arguments: PENSTOCK_… variables set it (docs/settings.md).")
        return 0
    return run(name, words[1:])


def usage() -> str:
    width = max(map(len, PROGRAMS))
    lines = [f"  penstock {name:{width}}  {what}" for name, (_, what) in PROGRAMS.items()]
    return "\n".join(["Penstock's programs. Each of them says with --help what it takes.", "", *lines])


def run(name: str, arguments: Sequence[str]) -> int:
    """Runs a program as `python -m` does. It ends the process by itself, as a rule."""
    from importlib.util import find_spec
    from runpy import run_module

    # Until the program handles signals by itself, Ctrl-C ends it without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    put_packages_on_path()
    if name == "dev":
        gc.disable()  # until it has imported everything, which makes thousands of objects and no garbage
    sys.argv = [f"penstock {name}", *arguments]
    if name in OF_A_CLUSTER and (missing := [package for package in ETCD_CLIENT if find_spec(package) is None]):
        extra = "controller" if name == "recovery" else name
        print(
            f"penstock {name}: the package {missing[0]} is not installed; install the wheel or checkout with its extra [{extra}]",
            file=sys.stderr,
        )
        return 1
    run_module(PROGRAMS[name][0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
