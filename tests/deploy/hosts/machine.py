"""One host: its file system, its network, and the processes of its units. It does what systemd would do with them."""

import contextlib
import os
import resource
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from services.local.systemd.units import DESCRIPTIONS, unit_name
from tests.deploy.hosts.unit_files import Unit, read_unit
from tests.support.requirements import ROOT
from tests.system.chaos.hosts import Hosts

UNITS = "etc/systemd/system"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
FILE_SYSTEM = """
mkdir -p "$0/opt/penstock" "$0/var/lib" "$0/run"
mount --bind "$1" "$0/opt/penstock"
mount --rbind "$0/opt" /opt
mount --bind "$0/var/lib" /var/lib
mount --bind "$0/run" /run
[ ! -d "$0/etc" ] || mount -t overlay -o "lowerdir=$0/etc:/etc" overlay /etc
shift
exec "$@"
"""
WITHOUT_PRIVILEGES = ("setpriv", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all")
STOP_ORDER = tuple(reversed(DESCRIPTIONS))


class Machine:
    """`directory` is its `/`, but for the programs of this machine that all hosts share."""

    def __init__(self, name: str, hosts: Hosts, directory: Path) -> None:
        self.name = name
        self.address = hosts.address[name]
        self._inside = hosts.inside(name)
        self._directory = directory
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def run(self, command: str) -> str:
        """Runs a line of shell in /opt/penstock; returns what it prints."""
        argv = self._within(["sh", "-c", f"cd /opt/penstock && {command}"])
        done = subprocess.run(argv, capture_output=True, encoding="utf-8", timeout=60, check=False)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    @property
    def root(self) -> Path:
        return self._directory

    def unit(self, role: str) -> Unit:
        return read_unit(self._directory / UNITS / unit_name(role), root=self._directory)

    def start(self, roles: Sequence[str] = tuple(DESCRIPTIONS)) -> None:
        for role in roles:
            self._processes[role] = self._spawn(self.unit(role), role)

    def _spawn(self, unit: Unit, role: str) -> subprocess.Popen[bytes]:
        for key, parent in (("StateDirectory", "var/lib"), ("RuntimeDirectory", "run")):
            for place in unit.values("Service", key):
                (self._directory / parent / place).mkdir(mode=0o700, parents=True, exist_ok=True)
        # No more than this machine's root may have: a container's may not raise it.
        limit = min(int(unit.values("Service", "LimitNOFILE")[-1]), resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        argv = self._within(["prlimit", f"--nofile={limit}", *WITHOUT_PRIVILEGES, *unit.argv])
        environment = {"PATH": PATH, "LANG": "C.UTF-8", **unit.environment}
        with open(self.log_file(role), "ab") as log:
            return subprocess.Popen(
                argv, env=environment, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _within(self, argv: Sequence[str]) -> list[str]:
        """In this host's network, and with its file system."""
        return [*self._inside, "unshare", "--mount", "sh", "-ec", FILE_SYSTEM, str(self._directory), str(ROOT), *argv]

    def log_file(self, role: str) -> Path:
        return self._directory / f"{role}.log"

    def ended(self) -> list[str]:
        """Those of its processes that run no more."""
        return [role for role, process in self._processes.items() if process.poll() is not None]

    def kill(self) -> None:
        """All processes at once, children included, by SIGKILL. The kernel lives: what they wrote is in its page cache, as it
        would not be after a loss of power."""
        for process in self._processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        for process in self._processes.values():
            process.wait()
        self._processes.clear()

    def stop(self) -> list[str]:
        """As systemd at `systemctl stop penstock.target`. Returns those that did not stop in time, or failed."""
        bad = []
        for role in STOP_ORDER:
            if (process := self._processes.get(role)) is None:
                continue
            process.terminate()
            try:
                code = process.wait(float(self.unit(role).values("Service", "TimeoutStopSec")[-1]))
            except subprocess.TimeoutExpired:
                bad.append(f"{self.name}: {role} did not stop in time")
                continue
            if code != 0 and (role, code) != ("etcd", -signal.SIGTERM):  # etcd sends itself the signal once it has stopped
                bad.append(f"{self.name}: {role} ended with {code}")
        return bad


@contextmanager
def machines(names: Sequence[str], hosts: Hosts, directory: Path) -> Iterator[list[Machine]]:
    """Nothing of them runs afterwards."""
    made = [Machine(name, hosts, directory / name) for name in names]
    for machine in made:
        machine.root.mkdir()
    try:
        yield made
    finally:
        for machine in made:
            machine.kill()
