"""One local cluster: starts what is down, waits until all is ready, stops, and tells how it is.

Used by the command line, and as a library by the tests. State lives in the run directory and in the kernel, not here: any
launcher may stop what another one started.
"""

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from services.local import etcd_protection, probe, processes, protection, warm_processes
from services.local.client_listeners import PREFIXES, of_gateway, refuse_ports_of_others, remembered_in
from services.local.cluster_plan import STOP_ORDER, ProcessPlan, health_port, plan_cluster, sets_etcd, with_host
from services.local.cluster_shape import HOST, Shape
from services.local.errors import LauncherError
from services.local.free_ports import refuse_shared, refuse_taken
from services.local.host_names import with_port
from services.local.run_directory import ADVERTISED_HOST, LISTEN_HOST, RunDirectory
from services.local.warm_parent import WarmParent
from services.local.warm_processes import Prepared
from services.local.zipkin_setup import zipkin_jar

POLL_S = 0.02
READY_WITHIN_S = 120.0  # a storage node may have a long log to check after a crash
TELL_AFTER_S = 3.0
STOP_WITHIN_S = 15.0  # all of them together, but
STOP_AT_LEAST_S = 3.0  # so long is given to those of each role
ANSWERS_WITHIN_S = 5.0  # an etcd that does not hangs
LOG_TAIL_BYTES = 4000
FULL_BYTES = 1 << 20
ETCD_TAKES_MB = 128
"""etcd preallocates its log: a file of 64 MB and the next one."""
NO_SPACE = os.strerror(errno.ENOSPC).lower()
START_ANEW = "start it anew"
"""What a process says that serves nobody until it is started again, since its socket is gone (`libs/runtime/process.py`)."""
FULL = "log directory full"
"""What a storage node says that serves, and refuses appends (`services/storage/service.py`)."""
MARKS = ("-Xpenstock=", "-Dpenstock=")
"""Of a process that Python runs, and of one that Java runs."""
SETTINGS = ("PENSTOCK_", "OTEL_")
"""How the variables begin that services read."""
OF_ALL_GATEWAYS = (LISTEN_HOST, ADVERTISED_HOST, *PREFIXES)
"""How the settings begin of the first gateway that the others have as well. A node names its own host for each broker: one that
was added later must listen there too."""
NEXT = "What runs is left running. Mend what is wrong, then `make up` goes on; `make down` stops the rest."


class StartWarm(Protocol):
    def __call__(self, wanted: Sequence[Prepared], *, directory: Path) -> dict[str, int]: ...


@dataclass(frozen=True)
class ProcessStatus:
    plan: ProcessPlan
    pid: int | None
    ready: bool
    said: str
    memory: processes.Memory | None


@dataclass(frozen=True)
class Disk:
    """A file system, and which directories of the cluster lie there."""

    directories: tuple[str, ...]
    total_bytes: int
    free_bytes: int


class Cluster:
    """`environment` is added for every service, `environment_of[name]` for one; both come after the launcher's own."""

    def __init__(
        self,
        shape: Shape,
        run: RunDirectory,
        *,
        root: Path,
        python: Path,
        etcd: Path,
        environment: Mapping[str, str] | None = None,
        environment_of: Mapping[str, Mapping[str, str]] | None = None,
        stop_within_s: float = STOP_WITHIN_S,
        start_warm: StartWarm = warm_processes.start,
    ) -> None:
        """`start_warm`: starts services, as far as it can, and returns their pids by name. The others are started one by one."""
        self.shape = shape
        self.run = run
        self.root = root
        self._environment = environment or {}
        self._environment_of = environment_of or {}
        self._stop_within_s = stop_within_s
        self._start_warm = start_warm
        self._children: dict[int, subprocess.Popen[bytes]] = {}  # those started by this very process, which must reap them
        self._log_starts: dict[str, int] = {}  # where in its log the latest run of a process begins
        self.etcd_tls = etcd_protection.has_tls(shape, run)
        """Whether etcd has TLS and users. One that runs without keeps it so until all is stopped."""
        plans = plan_cluster(shape, run, python=python, etcd=etcd, zipkin=zipkin_jar(root), etcd_tls=self.etcd_tls)
        self.plans = {plan.name: plan for plan in plans}

    def names_down(self) -> list[str]:
        """The processes that `up` would start. A process gets its pid file back if an interrupted launcher did not write it."""
        self.run.create()
        for pid, name in self.running().items():
            if name in self.plans and self.pid_of(name) is None:
                processes.write_pid(self.run.pid_file(name), pid)
        return [name for name in self.plans if self.pid_of(name) is None]

    def up(
        self, tell: Callable[[Sequence[str]], None] = lambda names: None, with_etcd: Callable[[], None] | None = None
    ) -> dict[str, str]:
        """Starts what is down and returns when everything is ready. `tell` hears whom it starts, once nothing is in the way.
        `with_etcd` is called before the services start, once etcd is ready. Returns what storage nodes say whose disks are full.

        The shape is remembered even if something is: who mends that need not give it again.
        """
        self.run.write_shape(self.shape)
        names = self.names_down()
        if names:
            refuse_shared(self.shape, self.run)
            listeners = self.listeners(starting=names)
            refuse_ports_of_others(self.shape, listeners)
            protection.remember(self.run, self.shape, listeners)
        refuse_taken([self.plans[name] for name in names], kept=self._has_node())
        tell(names)
        if names and with_etcd is not None:
            self.start("etcd")
            self.wait_ready(["etcd"])
            with_etcd()
        self._spawn_all([self.plans[name] for name in names if self.pid_of(name) is None])
        return self.wait_ready()

    def overridden(self, given: Mapping[str, str]) -> list[str]:
        """The settings in the environment `given` that no process gets, since the launcher sets them otherwise."""
        return sorted(
            {
                variable
                for plan in self.plans.values()
                for variable, value in plan.environment.items()
                if variable.startswith("PENSTOCK_") and given.get(variable, value) != value
            }
        )

    def too_late(self, given: Mapping[str, str]) -> list[str]:
        """The settings in the environment `given` that reach no process: all of them run already, with other values."""
        pids = [(plan, self.pid_of(plan.name)) for plan in self.plans.values() if plan.is_service]
        running = [(plan, processes.environment(pid)) for plan, pid in pids if pid is not None]
        if len(running) < len(pids):
            return []
        ours = {variable for plan in self.plans.values() for variable in plan.environment}  # `overridden` tells of these
        asked = {variable: value for variable, value in given.items() if variable not in ours}
        late = set()
        for plan, has in running:
            own = asked
            if plan.has_gateway:
                own = asked | of_gateway(plan.block, asked)
                by_security = protection.settings_of(self.shape, self.run, plan.number, own)
                own |= {variable: value for variable, value in by_security.items() if variable in asked}
            late |= {variable for variable, value in own.items() if has.get(variable) != value}
        return sorted(late)

    def bootstrap_servers(self) -> str:
        """As clients reach the gateways."""
        return ",".join(
            with_port(self._advertised_host(f"gateway-{number}"), self.shape.bootstrap_port(number))
            for number in self.shape.gateway_numbers
        )

    def _advertised_host(self, gateway: str) -> str:
        first, own = (self.run.place_of(name, {}) for name in ("gateway-1", gateway))
        return {**first, **own}.get(ADVERTISED_HOST, HOST)

    def start(self, name: str) -> int:
        """Starts one process without waiting for it to be ready. Does nothing if it runs."""
        pid = self.pid_of(name)
        if pid is None:
            refuse_taken([self.plans[name]], kept=self._has_node())
            pid = self._spawn_all([self.plans[name]])[name]
        return pid

    def wait_ready(self, names: Sequence[str] | None = None, *, within_s: float = READY_WITHIN_S) -> dict[str, str]:
        """Returns when all say that they are ready; raises as soon as one has died.

        A storage node whose disk is full serves what it has, and waiting gives it no room. It is returned with what it says.
        """
        plans = [self.plans[name] for name in (self.plans if names is None else names)]
        deadline = time.monotonic() + within_s
        over = threading.Event()
        answers = {plan.name: "not asked yet" for plan in plans}
        full: dict[str, str] = {}
        with ThreadPoolExecutor(max_workers=len(plans)) as pool:
            left: set[Future[None]] = {pool.submit(self._wait_ready, plan, deadline, answers, full, over) for plan in plans}
            try:
                while left:
                    done, left = wait(left, timeout=TELL_AFTER_S, return_when=FIRST_EXCEPTION)
                    for outcome in done:
                        outcome.result()
                    if left and answers:
                        print(f"still waiting for {_by_reason(answers)}", flush=True)
            finally:
                over.set()
        return full

    def _wait_ready(
        self, plan: ProcessPlan, deadline: float, answers: dict[str, str], full: dict[str, str], over: threading.Event
    ) -> None:
        """`answers`: the last answer of each process that is not ready yet, by name."""
        while not over.is_set():
            ready, answer = probe.ask(plan.probe_port, plan.probe_path, timeout_s=2.0, host=plan.probe_host)
            if ready or FULL in answer:
                if not ready:
                    full[plan.name] = answer
                del answers[plan.name]
                return
            answers[plan.name] = answer
            now = time.monotonic()
            if self.pid_of(plan.name) is None:
                raise LauncherError(self._why_ended(plan.name, answers))
            if START_ANEW in answer:
                raise LauncherError(f"{plan.name} will not be ready by itself: {answer}")
            if now > deadline:
                raise LauncherError(f"{plan.name} is not ready in time ({answer}). {NEXT} {self._log_tail(plan.name)}")
            over.wait(POLL_S)

    def _why_ended(self, name: str, waited_for: Iterable[str]) -> str:
        """Why that process ended. Others of those that are waited for may have ended too, often for the same reason."""
        tail = self._log_tail(name)
        others = [other for other in list(waited_for) if other != name and self.pid_of(other) is None]
        ended = f"{name} ended while starting" + (f", and so did {', '.join(others)}" if others else "")
        free_bytes = shutil.disk_usage(self.run.path).free
        if free_bytes < FULL_BYTES or NO_SPACE in tail.lower():
            room = f"{free_bytes / 2**20:.1f} MiB are free below {self.run.path}"
            if "etcd" in (name, *others):
                room += f", and etcd takes {ETCD_TAKES_MB} MB there for its log at its first start"
            return f"{ended}, since its volume is full: {room} (see {self.run.log_file(name)}). {NEXT}"
        place = {key: value for each in self.plans[name].places for key, value in self.run.place_of(each, {}).items()}
        return f"{ended}. {NEXT} {remembered_in(tail, place, os.environ)}{tail}"

    def _spawn_all(self, plans: Sequence[ProcessPlan], former: Mapping[str, str] = MappingProxyType({})) -> dict[str, int]:
        """Starts etcd, the trace UI, and the services from one warm process, as far as that can be. Returns all pids by name.
        `former`: settings of a former life, which count least."""
        pids = {plan.name: self._spawn(plan, former) for plan in plans if not plan.is_service}
        services = [plan for plan in plans if plan.is_service]
        for name, pid in self._start_warm([self._prepared(plan, former) for plan in services], directory=self.root).items():
            processes.write_pid(self.run.pid_file(name), pid)
            pids[name] = pid
        return pids | {plan.name: self._spawn(plan, former) for plan in services if plan.name not in pids}

    def _spawn(self, plan: ProcessPlan, former: Mapping[str, str]) -> int:
        prepared = self._prepared(plan, former)
        child = processes.spawn(plan.argv, environment=prepared.environment, directory=self.root, log=prepared.log)
        self._children[child.pid] = child
        processes.write_pid(self.run.pid_file(plan.name), child.pid)
        return child.pid

    def _prepared(self, plan: ProcessPlan, former: Mapping[str, str] = MappingProxyType({})) -> Prepared:
        self.run.data_directory((*plan.places, plan.name)[0]).mkdir(mode=0o700, parents=True, exist_ok=True)
        environment = {**former, **os.environ, **plan.environment}
        if plan.role == "etcd":
            environment = {name: value for name, value in environment.items() if not sets_etcd(name)}
        elif plan.is_service:
            environment |= self._place_of(plan, os.environ)
            environment |= {**self._environment, **self._environment_of.get(plan.name, {})}
        log = self.run.log_file(plan.name)
        self._log_starts[plan.name] = log.stat().st_size if log.exists() else 0
        return Prepared(plan, environment, log)

    def _place_of(self, plan: ProcessPlan, given: Mapping[str, str], *, remember: bool = True) -> dict[str, str]:
        """Where a process is. A gateway has the hosts of the first one, and its further listeners at ports of its own, or those
        that it was given."""
        place = protection.admin_token(self.shape, self.run)
        for name in plan.places:
            place |= self.run.place_of(name, given, remember=remember)
        if not plan.has_gateway:
            return place
        first = self.run.place_of("gateway-1", {})
        place = {**{name: value for name, value in first.items() if name.startswith(OF_ALL_GATEWAYS)}, **place}
        place |= of_gateway(plan.block, place)
        return place | protection.settings_of(self.shape, self.run, plan.number, place)

    def listeners(self, starting: Collection[str] = ()) -> dict[str, dict[str, str]]:
        """The settings of each gateway, with its further listeners. Those that are `starting` get the environment's."""
        gateways = [plan for plan in self.plans.values() if plan.has_gateway]
        environments = {plan.name: os.environ if plan.name in starting else {} for plan in gateways}
        return {plan.name: self._place_of(plan, environments[plan.name], remember=False) for plan in gateways}

    def _has_node(self) -> bool:
        return any(plan.role == "node" and self.pid_of(plan.name) is not None for plan in self.plans.values())

    def pid_of(self, name: str) -> int | None:
        """The running process of that name, if there is one."""
        pid = processes.read_pid(self.run.pid_file(name))
        if pid is None:
            return None
        if child := self._children.get(pid):
            if child.poll() is not None:
                del self._children[pid]
                return None
            return pid  # ours: between fork and exec it does not bear its mark yet
        return pid if processes.has_argument(pid, self.plans[name].mark) else None

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Sends a signal to one process and, if it is a deadly one, returns when the process has ended."""
        pid = self.pid_of(name)
        if pid is None:
            raise LauncherError(f"{name} is not running")
        if number != signal.SIGTERM:  # which `_end` sends, and a second one cuts the draining short
            os.kill(pid, number)
        if number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
            self._end({pid: name})

    def restart(self, name: str, *, stop_within_s: float) -> bool:
        """Ends one process by SIGTERM and starts it again, with the settings that it had where the environment gives no others.
        It need not be ready on return. True: it did not stop in time, and was killed."""
        pid = self.pid_of(name)
        if pid is None:
            raise LauncherError(f"{name} is not running")
        former = processes.environment(pid)
        killed = self._end({pid: name}, timeout_s=stop_within_s)
        refuse_taken([self.plans[name]], kept=self._has_node())
        self._spawn_all([self.plans[name]], _settings_in(former))
        return bool(killed)

    @contextlib.contextmanager
    def warm(self, names: Sequence[str]) -> Iterator[None]:
        """A scope in which services of the roles of those names are forked from one process that has imported their code. The
        processes of those names run."""
        plans = [self.plans[name] for name in names]
        start_warm = self._start_warm
        with WarmParent(self.root, Path(plans[0].argv[0]), sorted({plan.role for plan in plans})) as parent:
            pid = self.pid_of(plans[0].name)
            parent.expect(self._prepared(plans[0], _settings_in(processes.environment(pid)) if pid is not None else {}))
            self._start_warm = parent.start
            try:
                yield
            finally:
                self._start_warm = start_warm

    def down(self) -> list[str]:
        """Stops everything of this run directory, those in front first. Returns the names of those that had to be killed."""
        running = self.running()
        killed = self._end_hung_etcd(running)
        until = time.monotonic() + self._stop_within_s
        later = sorted({name.partition("-")[0] for name in running.values()}.difference(STOP_ORDER))
        for role in (*later, *STOP_ORDER):  # a version that was rolled back from may have roles that this one lacks
            names = {pid: name for pid, name in running.items() if name.partition("-")[0] == role and name not in killed}
            killed += self._end(names, timeout_s=max(until - time.monotonic(), STOP_AT_LEAST_S))
        for name in running.values():
            self.run.pid_file(name).unlink(missing_ok=True)
        self._reap()
        return killed

    def _end_hung_etcd(self, running: Mapping[int, str]) -> list[str]:
        """Kills an etcd that hangs: stopping processes would wait for it. It keeps acknowledged writes however it ends."""
        plan = self.plans["etcd"]
        hung = {pid: name for pid, name in running.items() if name == plan.name}
        if not hung:
            return []
        # The port that it was started with: the shape may be lost.
        port = next((port for pid in hung if (port := health_port(processes.command_line(pid)))), plan.probe_port)
        if probe.ask(port, plan.probe_path, timeout_s=ANSWERS_WITHIN_S, host=plan.probe_host)[0]:
            return []
        print("etcd does not answer: it is ended before the others, since they would wait for it", flush=True)
        return self._end(hung, timeout_s=1.0)

    def running(self) -> dict[int, str]:
        """pid -> name of all that runs here, even if an earlier and larger shape started it or its pid file is lost."""
        etcd = self.plans["etcd"].mark
        suffix = f"@{self.run.path}"
        found = processes.find_by_argument(
            lambda argument: argument == etcd or (argument.startswith(MARKS) and argument.endswith(suffix))
        )
        return {pid: "etcd" if mark == etcd else mark.partition("=")[2].removesuffix(suffix) for pid, mark in found}

    def _end(self, names: Mapping[int, str], *, timeout_s: float | None = None) -> list[str]:
        """Returns the names of those that had to be killed."""

        def tell(pids: Sequence[int]) -> None:
            print(f"still waiting for {', '.join(sorted(names[pid] for pid in pids))} to stop", flush=True)

        timeout_s = self._stop_within_s if timeout_s is None else timeout_s
        killed = processes.end(list(names), timeout_s=timeout_s, tell=tell, tell_after_s=TELL_AFTER_S)
        for pid in names:
            if child := self._children.pop(pid, None):
                child.wait()
        return [names[pid] for pid in killed]

    def _reap(self) -> None:
        """Children that ended by themselves stay zombies until someone asks."""
        for pid, child in list(self._children.items()):
            if child.poll() is not None:
                del self._children[pid]

    def disks(self, root: Path) -> list[Disk]:
        """The file systems of the cluster's data, in the order of its directories."""
        by_device: dict[int, list[Path]] = {}
        for path in (self.run.data, *self.run.log_directories_elsewhere(root)):
            if path.exists():
                by_device.setdefault(path.stat().st_dev, []).append(path)
        usages = [(paths, shutil.disk_usage(paths[0])) for paths in by_device.values()]
        return [Disk(tuple(map(str, paths)), usage.total, usage.free) for paths, usage in usages]

    def status(self, *, with_memory: bool = True) -> list[ProcessStatus]:
        """`with_memory=False`: without the sizes, which the kernel adds up page by page."""
        return [self._status(plan, with_memory) for plan in self.plans.values()]

    def _status(self, plan: ProcessPlan, with_memory: bool) -> ProcessStatus:
        pid = self.pid_of(plan.name)
        if plan.has_gateway:
            plan = with_host(plan, self._advertised_host(plan.places[-1]))
        if pid is None:
            return ProcessStatus(plan, None, False, "", None)
        ready, said = probe.ask(plan.probe_port, plan.probe_path, timeout_s=1.0, host=plan.probe_host)
        return ProcessStatus(plan, pid, ready, said, processes.memory_of(pid) if with_memory else None)

    def _log_tail(self, name: str) -> str:
        file = self.run.log_file(name)
        with open(file, "rb") as log:
            log.seek(max(self._log_starts.get(name, 0), log.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
            return f"The end of {file}:\n{log.read().decode(errors='replace').rstrip()}"


def _settings_in(environment: Mapping[str, str]) -> dict[str, str]:
    return {variable: value for variable, value in environment.items() if variable.startswith(SETTINGS)}


def _by_reason(reasons: Mapping[str, str]) -> str:
    names: dict[str, list[str]] = {}
    for name, reason in list(reasons.items()):
        names.setdefault(reason, []).append(name)
    return "; ".join(f"{', '.join(each)}: {reason}" for reason, each in names.items())
