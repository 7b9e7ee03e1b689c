"""Writes the units and the environment files of one host: `python -m services.local.systemd` (docs/operate/three-hosts.md)."""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from services.local.errors import LauncherError
from services.local.etcd_setup import etcd_binary
from services.local.python_setup import venv_python
from services.local.systemd.environment import environment_files
from services.local.systemd.firewall import FIREWALL_UNIT, RULES, Firewall
from services.local.systemd.hosts import Hosts
from services.local.systemd.protection import require_files
from services.local.systemd.units import ENVIRONMENT, Installation, unit_files

ROOT = Path(__file__).resolve().parents[3]
UNITS = "/etc/systemd/system"
HIDDEN = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")
"""Directories that no process of a unit sees, by ProtectHome and PrivateTmp."""


def installation_of(given: argparse.Namespace) -> Installation:
    """Raises LauncherError if units could not start these programs."""
    for option, path in (("--python", given.python), ("--etcd", given.etcd)):
        if not path.is_absolute():
            raise LauncherError(f"{option} is {path}; expected an absolute path")
        target = path.resolve()  # that of a virtual environment may be a link to an interpreter elsewhere
        shown = f"{path}, a link to {target}" if target != path else path
        if hidden := next((place for place in HIDDEN if path.is_relative_to(place) or target.is_relative_to(place)), None):
            raise LauncherError(f"{option} is {shown}, and units do not see {hidden}; expected a path such as /opt/penstock/…")
        if not os.access(path, os.X_OK):
            raise LauncherError(f"{option} is {path}, which is no program; `python3 -m services.local setup` installs it")
    return Installation(given.python, given.etcd, given.user)


def write(into: Path, hosts: Hosts, installation: Installation, firewall: Firewall | None, *, secured: bool = False) -> list[str]:
    """Units are replaced. A file of settings or rules that is there stays, since its operator may have changed it. Returns what
    was done, a line for each file. `secured`: as `protection` has it. Raises LauncherError."""
    done = []
    if secured:
        require_files(into)
    settings = {name: _text(values) for name, values in environment_files(hosts, secured=secured).items()}
    units = unit_files(installation)
    if firewall is not None:
        units[FIREWALL_UNIT], settings[RULES] = firewall.unit(), firewall.rules()
    for name, text in units.items():
        done.append(_write(into / UNITS.lstrip("/") / name, text))
    for name, text in settings.items():
        path = into / ENVIRONMENT.lstrip("/") / name
        if path.exists() and path.read_text(encoding="utf-8") != text:
            done.append(f"kept {path}, which differs; remove it to have it written anew")
        else:
            done.append(_write(path, text))
            if name == RULES and firewall is not None and not firewall.clients:
                done.append(f"no client may connect until {path} names their networks: give --clients, or edit it")
    if hosts.listen_address == hosts.any_address:
        done.append(f"etcd listens at all addresses, since {hosts.name} is a name: --address says at which one it should")
    return done


def _text(settings: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _write(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return f"wrote {path}"


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m services.local.systemd", description="Writes the systemd units of one host.")
    parser.add_argument("--hosts", required=True, help="names or addresses of all hosts, the same list on each")
    parser.add_argument("--host", required=True, help="which of them this is")
    parser.add_argument("--address", default="", help="where etcd listens, if --host is a name (default: at all addresses)")
    parser.add_argument("--clients", default="", help="networks of clients, such as 10.0.0.0/16, for the firewall")
    parser.add_argument("--operators", default="", help="addresses that may read health and metrics, for the firewall")
    parser.add_argument("--no-firewall", action="store_true", help="write none, since another one protects the ports")
    parser.add_argument(
        "--secured", action="store_true", help="certificates between processes and for etcd, a token for admin ports"
    )
    parser.add_argument("--racks", default="", help="the rack or zone of each of --hosts, in their order")
    parser.add_argument("--port", type=int, default=9092, help="the bootstrap port (default 9092)")
    parser.add_argument("--user", default="penstock", help="the user that runs all processes (default penstock)")
    parser.add_argument("--python", type=Path, default=venv_python(ROOT), help="the Python that has Penstock")
    parser.add_argument("--etcd", type=Path, default=etcd_binary(ROOT), help="the etcd to run")
    parser.add_argument("--into", type=Path, default=Path("/"), help="the root below which files are written (default /)")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    given = parse(arguments)
    try:
        racks = _list(given.racks)
        hosts = Hosts(_list(given.hosts), given.host, racks, given.port, given.address)
        firewall = None if given.no_firewall else Firewall(hosts, _list(given.clients), _list(given.operators))
        for line in write(given.into, hosts, installation_of(given), firewall, secured=given.secured):
            print(line)
    except LauncherError as reason:
        print(f"penstock: {reason}", file=sys.stderr)
        return 1
    except OSError as reason:
        print(f"penstock: {reason.filename}: {reason.strerror}", file=sys.stderr)
        return 1
    return 0


def _list(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",")) if text else ()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
