"""What each process shows while nothing is acknowledged, so that a long pause which comes once in many runs can be explained."""

import json
import shutil
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from services.local.probe import ask
from tests.support.cluster_harness import LocalCluster

PAUSE_S = 5.0
"""Longer than a silent leader is waited for."""
LOOK_S = 0.25
ANSWER_S = 2.0
VIEW_BYTES_MAX = 16 << 20


class PauseWatch:
    """Watches one producer's acknowledgements. Use as a context manager.

    Each pause of `PAUSE_S` has a folder below `directory`: the debug views of all processes during the pause, and their logs.
    """

    def __init__(self, cluster: LocalCluster, times_ns: Sequence[int], partition: str, directory: Path) -> None:
        """`times_ns`: the monotonic times of acknowledgements, which grow. `partition`: as `topic-index`."""
        self._cluster = cluster
        self._times_ns = times_ns
        self._partition = partition
        self._directory = directory
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watches for pauses")

    def __enter__(self) -> "PauseWatch":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ending.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ending.wait(LOOK_S):
            if self._times_ns and time.monotonic_ns() - self._times_ns[-1] >= PAUSE_S * 1e9:
                self._write_down()

    def _write_down(self) -> None:
        last_ns = self._times_ns[-1]
        folder = self._directory / f"{time.time_ns() // 1_000_000}"
        folder.mkdir(parents=True)
        for name in self._cluster.names:
            if name != "etcd" and self._cluster.is_running(name):
                self._write_views(name, folder)
        while self._times_ns[-1] == last_ns and not self._ending.wait(LOOK_S):
            pass
        shutil.copytree(self._cluster.run.logs, folder / "logs")

    def _write_views(self, name: str, folder: Path) -> None:
        views = [view for view in json.loads(self._ask(name, "/debug") or "[]") if not view.endswith(("/NAME", "/profile"))]
        for view in (*views, f"/debug/partitions/{self._partition}"):
            if said := self._ask(name, view):
                (folder / f"{name}{view.replace('/', '.')}").write_text(said, encoding="utf-8")

    def _ask(self, name: str, view: str) -> str:
        """The view, "" if the process has none of that name or does not answer."""
        host, port = self._cluster.admin_address(name)
        answered, said = ask(port, view, timeout_s=ANSWER_S, host=host, bytes_max=VIEW_BYTES_MAX)
        return said if answered else ""
