"""A real cluster of real processes, for tests: the same code as `make up`, in a temporary folder, on ports of its own."""

import re
import signal
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from services.local.asked_health import ask_health
from services.local.cluster import Cluster
from services.local.cluster_health import HEALTHY
from services.local.cluster_plan import ProcessPlan
from services.local.cluster_shape import NODE_ROLES, PORTS_PER_GATEWAY, SERVICE_ROLES, Shape
from services.local.etcd_setup import etcd_binary
from services.local.probe import ask
from services.local.python_setup import venv_python
from services.local.run_directory import RunDirectory
from tests.support.ports import reserve_ports
from tests.support.process_memory import memory_bytes
from tests.support.requirements import ROOT, require
from tests.support.shortcut_halves import settings_of_this_test
from tests.support.warm_parent import start_warm

# What a healthy service never writes.
COMPLAINTS = re.compile(
    r"Traceback \(most recent call last\)|was never retrieved|was never awaited|Fatal Python error|level=critical"
)
STOP_WITHIN_S = 90.0  # the machine may be busy with other tests


class LocalCluster:
    """Use as a context manager. At the end nothing may be left running, and no log may hold a traceback.

    `environment` is for every service, `environment_of["storage-1"]` for one. With `roles="node"`, `storage-1` and `gateway-1`
    are names of the process `node-1`, so that tests need not know which roles a cluster has. Half of the compatibility tests run
    without the gateways' shortcuts (`tests/support/shortcut_halves.py`). A test that provokes a traceback on purpose says so with
    `expected_complaints`, a regular expression over the line.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        storage: int = 1,
        gateways: int = 1,
        controllers: int = 1,
        coordinators: int = 1,
        transaction_coordinators: int = 1,
        quota_managers: int = 1,
        roles: str = SERVICE_ROLES,
        environment: Mapping[str, str] | None = None,
        environment_of: Mapping[str, Mapping[str, str]] | None = None,
        expected_complaints: str | None = None,
        root: Path = ROOT,
    ) -> None:
        """`root`: the checkout whose code runs, set up by its `make setup`."""
        require("etcd")
        self._scratch = tempfile.TemporaryDirectory(prefix="penstock-", ignore_cleanup_errors=True) if directory is None else None
        self.directory = directory or Path(self._scratch.name if self._scratch else "")
        self.expected_complaints = expected_complaints
        self._reservation = reserve_ports(PORTS_PER_GATEWAY * gateways)
        self.shape = Shape(
            *(self._reservation.first, storage, gateways, controllers),
            *(coordinators, transaction_coordinators, quota_managers),
            roles=roles,
        )
        self.run = RunDirectory(self.directory / "run")
        self._settings_of: dict[str, dict[str, str]] = {}
        for name, settings in (environment_of or {}).items():
            self._settings_of.setdefault(self._process(name), {}).update(settings)
        self._cluster = Cluster(
            self.shape,
            self.run,
            root=root,
            python=venv_python(root),
            etcd=etcd_binary(ROOT),
            environment={**settings_of_this_test(), **(environment or {})},
            environment_of=self._settings_of,
            stop_within_s=STOP_WITHIN_S,
            start_warm=start_warm(),
        )

    def _process(self, name: str) -> str:
        """The process that is the service of that name."""
        role, _, number = name.rpartition("-")
        return f"{NODE_ROLES}-{number}" if self.shape.has_nodes and role in ("storage", "gateway") else name

    def settings_of(self, name: str) -> Mapping[str, str]:
        """What `environment_of` has for that process."""
        return self._settings_of.get(self._process(name), {})

    def alter_plans(self, altered: Callable[[ProcessPlan], ProcessPlan]) -> None:
        """Before `up`: processes that are started in another way."""
        self._cluster.plans |= {name: altered(plan) for name, plan in self._cluster.plans.items()}

    @property
    def bootstrap(self) -> str:
        return self.shape.bootstrap_servers()

    @property
    def names(self) -> list[str]:
        return list(self._cluster.plans)

    @property
    def etcd_endpoint(self) -> str:
        return self.shape.etcd_endpoint()

    def up(self) -> dict[str, str]:
        """Starts what is down, returns when all is ready. Returns what storage nodes say whose disks are full."""
        return self._cluster.up()

    def run_code_of(self, root: Path) -> None:
        """Processes that are started from now on run the code of another checkout, with the same packages."""
        self._cluster.root = root

    def is_healthy(self) -> bool:
        """As `make status` says."""
        return ask_health(self._cluster.status(with_memory=False)).verdict == HEALTHY

    def pid(self, name: str) -> int:
        pid = self._cluster.pid_of(self._process(name))
        assert pid is not None, f"{name} does not run; its log ends:\n{self.log(name)[-4000:]}"
        return pid

    def is_running(self, name: str) -> bool:
        return self._cluster.pid_of(self._process(name)) is not None

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Sends a signal; returns when the process has ended, if the signal is one that ends it."""
        self._cluster.kill(self._process(name), number)

    def start(self, name: str) -> int:
        """Starts a process again, without waiting for it to be ready."""
        return self._cluster.start(self._process(name))

    def restart(self, name: str, number: int = signal.SIGTERM) -> None:
        """Ends a process by that signal, starts it again, returns when it is ready."""
        self.kill(name, number)
        self.start(name)
        self.wait_ready([name])

    def wait_ready(self, names: Sequence[str] | None = None, *, within_s: float = 120.0) -> None:
        self._cluster.wait_ready(None if names is None else [self._process(name) for name in names], within_s=within_s)

    def admin_address(self, name: str) -> tuple[str, int]:
        """Host and port."""
        plan = self._cluster.plans[self._process(name)]
        return plan.probe_host, plan.probe_port

    def admin(self, name: str, path: str) -> str:
        """The process's answer at that path of its admin port, e.g. `/metrics`."""
        host, port = self.admin_address(name)
        ok, said = ask(port, path, timeout_s=60.0, host=host, bytes_max=64 << 20)
        assert ok, f"{name}{path}: {said}"
        return said

    def log(self, name: str) -> str:
        file = self.run.log_file(self._process(name))
        return file.read_text(errors="replace", encoding="utf-8") if file.exists() else ""

    def data_directory(self, name: str) -> Path:
        """A node has the directory of its storage node."""
        plan = self._cluster.plans.get(name)
        return self.run.data_directory((*plan.places, name)[0] if plan is not None else name)

    def memory_bytes(self, name: str) -> int:
        """Proportional set size."""
        memory = memory_bytes(self.pid(name))
        assert memory is not None, f"{name} is gone"
        return memory

    def stop(self) -> list[str]:
        """Stops everything; the data stays, `up()` may follow. Returns the names of those that had to be killed."""
        return self._cluster.down()

    def complaints(self) -> list[str]:
        """Lines in the services' logs that no healthy process writes, with what follows them."""
        found = []
        for name in self.names:
            if name == "etcd":
                continue
            log = self.log(name)
            for match in COMPLAINTS.finditer(log):
                excerpt = log[max(0, log.rfind("\n", 0, match.start()) + 1) : match.start() + 3000]
                if not (self.expected_complaints and re.search(self.expected_complaints, excerpt)):
                    found.append(f"{name}: {excerpt}")
        return found

    def close(self, *, check: bool = True) -> None:
        """Stops everything and frees ports and folder; with `check`, fails on what should not be."""
        try:
            killed = self.stop()
            left = self._cluster.running()
            complaints = self.complaints()
        finally:
            self._reservation.release()
            if self._scratch is not None:
                self._scratch.cleanup()
        if check:
            assert not complaints, "a service complained:\n" + "\n".join(complaints[:3])
            assert not killed, f"did not stop on SIGTERM: {killed}"
            assert not left, f"still running: {left}"

    def __enter__(self) -> "LocalCluster":
        try:
            self.up()
        except BaseException:
            self.close(check=False)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close(check=error is None)
