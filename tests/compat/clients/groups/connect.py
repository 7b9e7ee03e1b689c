"""A worker of Kafka Connect in distributed mode, a process of its own, and its REST interface.

Sources write their records and positions in transactions (KIP-618), and the leader of the workers writes connectors' configs by a
transactional producer.
"""

import contextlib
import json
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.compat.kafka.jars import CONNECT, KafkaJars
from tests.compat.kafka.tools import SHORT_LIVED
from tests.support.polling import eventually
from tests.support.ports import reserve_ports
from tests.support.requirements import ROOT, require

STARTED_WITHIN_S = 60.0
STRINGS = "org.apache.kafka.connect.storage.StringConverter"
ON_THE_WAY = {404, 409, 500, 503}  # "no such connector yet", "a rebalance is going on", "the leader is not known yet"


class Worker:
    """`start()` returns when it is in its group. Workers of one `group` are one Connect cluster.

    `security`: settings of all its clients.
    """

    def __init__(self, bootstrap: str, group: str, directory: Path, security: Mapping[str, str] = MappingProxyType({})) -> None:
        require("java", "kafka-connect")
        directory.mkdir()
        self._reservation = reserve_ports(1)
        self.id = f"127.0.0.1:{self._reservation.first}"
        self._log = directory / "worker.log"
        self._properties = directory / "worker.properties"
        alive = {"session.timeout.ms": 4000, "heartbeat.interval.ms": 300}
        topics = {
            f"{what}.storage.{name}": value
            for what in ("config", "offset", "status")
            for name, value in (("topic", f"{group}-{what}"), ("replication.factor", -1))
        }
        properties = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "key.converter": STRINGS,
            "value.converter": STRINGS,
            "listeners": f"http://{self.id}",
            "plugin.discovery": "service_load",
            "scheduled.rebalance.max.delay.ms": 0,
            "offset.storage.partitions": 3,
            "status.storage.partitions": 2,
            "offset.flush.interval.ms": 300,
            "consumer.fetch.max.wait.ms": 100,
            "consumer.isolation.level": "read_committed",
            "exactly.once.source.support": "enabled",
            **alive,
            **{f"consumer.{name}": value for name, value in alive.items()},
            **topics,
            **{
                f"{client}{name}": value
                for client in ("", "producer.", "consumer.", "admin.")
                for name, value in security.items()
            },
        }
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in properties.items()), encoding="utf-8")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        jars = KafkaJars(ROOT, CONNECT)
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        with open(self._log, "ab") as log:
            command = jars.command(main, str(self._properties), options=SHORT_LIVED)
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def until_started(self) -> None:
        eventually(lambda: self._lives() and self.get("/connectors") is not None, STARTED_WITHIN_S)

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(timeout=60)
            self._process = None

    def close(self) -> None:
        self.kill()
        self._reservation.release()

    def put(self, name: str, config: Mapping[str, str]) -> None:
        """Makes a connector, or gives it another config."""
        eventually(lambda: self._ask("PUT", f"/connectors/{name}/config", config) is not None)

    def get(self, path: str) -> Any:
        """None while the worker cannot say."""
        return self._ask("GET", path)

    def where(self, connector: str) -> dict[str, str]:
        """The worker of each of its tasks that runs, and of itself."""
        status = self.get(f"/connectors/{connector}/status")
        if status is None:
            return {}
        parts = {"connector": status["connector"], **{f"task {task['id']}": task for task in status["tasks"]}}
        return {name: part["worker_id"] for name, part in parts.items() if part["state"] == "RUNNING"}

    def story(self) -> str:
        return self._log.read_text(errors="replace", encoding="utf-8")[-5000:]

    def _ask(self, method: str, path: str, content: object = None) -> Any:
        body = None if content is None else json.dumps(content).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://{self.id}{path}", body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with contextlib.closing(error):
                if error.code not in ON_THE_WAY:
                    raise AssertionError(f"{method} {path}: {error.code} {error.read()[:500]!r}") from None
            return None
        except OSError:
            return None

    def _lives(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.story()
        return True
