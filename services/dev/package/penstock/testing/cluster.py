"""A cluster for a test: a process of its own, with ports and a data folder of its own, which end with it."""

import json
import os
import select
import shutil
import signal
import socket
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from .between_lives import HeldPorts
from .fork_server_client import ForkServerGone, request_cluster

START_S_MAX = 30.0
STOP_S_MAX = 30.0
PORT_MAX = 65_534


class ClusterFailed(Exception):
    """A cluster that did not start, or did not end, and why."""


class Cluster:
    """A cluster with one broker. It is started by `start` or by `with`, and no process or file of it is left after `stop`.

    `data`: a folder whose content stays; a later cluster goes on with it. `port`: the bootstrap port; the broker has the next
    one. 0: any that are free. It has the same ports each time that it is started. `broker_configs`: Kafka's broker configs by
    name. `log_level`: what it logs to the stderr of this process: trace, debug, info, warning or error.
    """

    def __init__(
        self,
        *,
        data: str | os.PathLike[str] = "",
        port: int = 0,
        broker_configs: Mapping[str, object] | None = None,
        log_level: str = "error",
    ) -> None:
        self._request = {
            "data": _folder(data),
            "broker_configs": _texts(broker_configs),
            "log_level": log_level,
        }
        self._port = _port(port)
        """The bootstrap port; 0 until it has been started."""
        self._held: HeldPorts | None = None
        """Its ports while it does not run, once it has had some."""
        self._started_by = -1
        """The id of the process that started it. A fork of that process does not own it."""
        self._lifeline: socket.socket | None = None
        self._process = -1
        """The descriptor of its process."""
        self._answer: dict[str, Any] = {}

    @property
    def bootstrap_servers(self) -> str:
        """What clients call `bootstrap.servers`."""
        return str(self._running("bootstrap_servers"))

    @property
    def pid(self) -> int:
        """The id of its process."""
        return int(self._running("pid"))

    def start(self) -> Self:
        """Returns when clients are served. Raises ClusterFailed."""
        if self._lifeline is not None:
            raise ClusterFailed("the cluster runs already: it is started once, or again after stop")
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                request_cluster({**self._request, "port": self._port}, theirs)
            except ForkServerGone as error:
                ours.close()
                raise ClusterFailed(str(error)) from error
        answer = self._first_answer(ours)
        if reason := answer.get("error"):
            ours.close()  # which ends it, if it still starts
            raise ClusterFailed(f"the cluster did not start: {reason}")
        try:
            process = os.pidfd_open(answer["pid"])
        except ProcessLookupError as error:
            ours.close()
            raise ClusterFailed("the cluster ended as soon as it had started; what it logged is on stderr") from error
        self._lifeline, self._answer, self._process, self._started_by = ours, answer, process, os.getpid()
        self._port = int(answer["port"])
        self._release_ports()
        return self

    def restart(self, *, kill: bool = False) -> Self:
        """Stops or kills it, and starts it again with its data, at its ports. Raises ClusterFailed, also if it keeps no data."""
        if not self._request["data"]:
            raise ClusterFailed("a restart goes on with the data, and this cluster keeps none: give it a folder, Cluster(data=…)")
        self._running("pid")
        (self.kill if kill else self.stop)()
        return self.start()

    def stop(self) -> None:
        """Ends it as SIGTERM does, and returns when it is gone. Raises ClusterFailed if it had to be killed. In a fork of
        the process that started it, it runs on."""
        lifeline = self._own_lifeline()
        if lifeline is None:
            return
        lifeline.shutdown(socket.SHUT_WR)
        if not self._ended(STOP_S_MAX):
            self.kill()
            raise ClusterFailed(f"the cluster did not end within {STOP_S_MAX:.0f} s, and was killed")
        self._forget()
        self._hold_ports()

    def kill(self) -> None:
        """Ends it as SIGKILL does: nothing is written any more. Its data folder is as a crash leaves it. In a fork of
        the process that started it, it runs on."""
        if self._own_lifeline() is None:
            return
        signal.pidfd_send_signal(self._process, signal.SIGKILL)
        self._ended(STOP_S_MAX)
        shutil.rmtree(str(self._answer["temporary"]), ignore_errors=True)
        self._forget()
        self._hold_ports()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
        self._release_ports()

    def _hold_ports(self) -> None:
        self._held = HeldPorts(self._port)

    def _release_ports(self) -> None:
        if self._held is not None:
            self._held.release()
            self._held = None

    def _own_lifeline(self) -> socket.socket | None:
        """None: it does not run, or this is a fork of the process that started it, which knows it no longer."""
        if self._lifeline is not None and self._started_by != os.getpid():
            self._forget()
        return self._lifeline

    def _running(self, name: str) -> Any:
        if self._lifeline is None:
            raise ClusterFailed("the cluster does not run: start it first")
        return self._answer[name]

    def _first_answer(self, lifeline: socket.socket) -> dict[str, Any]:
        lifeline.settimeout(START_S_MAX)
        received = b""
        try:
            while not received.endswith(b"\n"):
                if not (more := lifeline.recv(1 << 16)):
                    return {"error": "its process ended; what it logged is on stderr"}
                received += more
        except TimeoutError:
            return {"error": f"it was not ready within {START_S_MAX:.0f} s"}
        except ConnectionResetError:
            return {"error": "its process was killed"}
        answer: dict[str, Any] = json.loads(received)
        return answer

    def _ended(self, timeout_s: float) -> bool:
        """Whether its process has ended."""
        poll = select.poll()
        poll.register(self._process, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))

    def _forget(self) -> None:
        assert self._lifeline is not None
        self._lifeline.close()
        os.close(self._process)
        self._lifeline = None
        self._answer = {}


def _folder(data: object) -> str:
    """The absolute path: the process of the cluster works in another directory. Raises ClusterFailed."""
    path = os.fspath(data) if isinstance(data, str | os.PathLike) else data
    if not isinstance(path, str):
        raise ClusterFailed(f"data is {data!r}; expected the path of a folder, a str or a pathlib.Path")
    return os.path.abspath(path) if path else ""


def _port(port: object) -> int:
    """Raises ClusterFailed."""
    if not isinstance(port, int) or isinstance(port, bool) or not 0 <= port <= PORT_MAX:
        raise ClusterFailed(f"port is {port!r}; expected 0 to {PORT_MAX}: the broker has the port after it")
    return port


def _texts(broker_configs: object) -> dict[str, str]:
    """Raises ClusterFailed."""
    if broker_configs is None:
        return {}
    if not isinstance(broker_configs, Mapping):
        raise ClusterFailed(f'broker_configs is {broker_configs!r}; expected a dict, such as {{"num.partitions": 3}}')
    return {str(name): str(value) for name, value in broker_configs.items()}
