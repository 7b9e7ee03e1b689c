"""The cluster that is attacked, what its requests may name, and the client that must notice nothing.

Half of the attacks are on a cluster in one process (`penstock dev`). The other half are on a node of role `node`, where a client
shares a process with a log, and the other services run beside it.
"""

import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from scramp import ScramClient

from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.records import Record, build_batch, iter_records
from services.local.cluster_shape import NODE_ROLES
from tests.dev.bounds.connection import Connection, errors_in
from tests.dev.bounds.requests import Known, plausible
from tests.dev.bounds.schema_codec import Value
from tests.dev.command import running
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually
from tests.support.ports import reserve_ports
from tests.support.process_memory import memory_bytes

USER, PASSWORD, MECHANISM = "alice", "alice-secret", "SCRAM-SHA-256"
CALM, ATTACKED = "calm", "numbers"
MEMORY_GROWTH_MAX: Final = 256 << 20
DESCRIPTORS_MAX: Final = 400
"""Of the process, whatever came before."""
FAILURES: Final = re.compile(r"Traceback|\b(ERROR|CRITICAL)\b|level=(error|critical)")
_NOT_READY: Final = {int(ErrorCode.COORDINATOR_NOT_AVAILABLE), int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)}


class Attacked(NamedTuple):
    """The process that has the gateway and the log, and what the cluster's processes have logged."""

    pid: int
    bootstrap_servers: str
    sasl_port: int
    logged: Callable[[], str]


class AttackedCluster:
    def __init__(self, attacked: Attacked) -> None:
        self._attacked = attacked
        self._began = _began(attacked.pid)
        host, _, port = attacked.bootstrap_servers.rpartition(":")
        self.plain, self.sasl = (host.strip("[]"), int(port)), ("127.0.0.1", attacked.sasl_port)
        self._calm = Connection(*self.plain)
        self._produced = 0
        self._made: dict[str, bytes] = {}
        for kind in (0, 1):
            self._ask_until_ready(ApiKey.FIND_COORDINATOR, 2, {"key": "any", "key_type": kind})
        ids = {name: self.create(name) for name in (CALM, ATTACKED)}
        self.known = Known(ids[ATTACKED], "t", 1, 0, "classic", "", "consumer", "A" * 22, 1)
        self._calm_id = ids[CALM]
        self.calm_round()
        self._memory = self._memory_bytes()

    def close(self) -> None:
        self._calm.close()

    def calm_round(self) -> None:
        """A record is produced, and comes back."""
        value = b"record %d" % self._produced
        produce = plausible(ApiKey.PRODUCE, 13, self.known)
        produce["topic_data"][0].update(topic_id=self._calm_id)
        produce["topic_data"][0]["partition_data"][0]["records"] = bytes(build_batch([Record(None, value, 1_000)]))
        answer = self._calm.ask(ApiKey.PRODUCE, 13, produce)["responses"][0]["partition_responses"][0]
        assert (answer["error_code"], answer["base_offset"]) == (0, self._produced), answer
        fetch = plausible(ApiKey.FETCH, 13, self.known)
        fetch["topics"][0].update(topic_id=self._calm_id)
        fetch["topics"][0]["partitions"][0].update(fetch_offset=self._produced)
        fetched = self._calm.ask(ApiKey.FETCH, 13, fetch)["responses"][0]["partitions"][0]
        assert [record.value for record in iter_records(fetched["records"])] == [value], fetched
        self._produced += 1

    def cpu_s(self) -> float:
        """The CPU that the process has taken, of all its threads."""
        # Linux makes a process's clock from its id (clock_getcpuclockid).
        return time.clock_gettime(~self._attacked.pid << 3 | 2)

    def check(self) -> None:
        """Raises unless the process lives, nobody has logged a failure, and it has no more memory and descriptors than it may."""
        logged = self._attacked.logged()
        assert _began(self._attacked.pid) == self._began, logged[-4_000:]
        assert FAILURES.search(logged) is None, "\n".join(logged.splitlines()[-60:])
        grown = self._memory_bytes() - self._memory
        assert grown <= MEMORY_GROWTH_MAX, f"{grown >> 20} MiB more than before"
        descriptors = len(os.listdir(f"/proc/{self._attacked.pid}/fd"))
        assert descriptors <= DESCRIPTORS_MAX, f"{descriptors} descriptors"

    def authenticated(self) -> socket.socket:
        """A connection whose client has authenticated."""
        connection = Connection(*self.sasl)
        assert connection.ask(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": MECHANISM})["error_code"] == 0
        client = ScramClient([MECHANISM], USER, PASSWORD)
        first = connection.ask(ApiKey.SASL_AUTHENTICATE, 2, {"auth_bytes": client.get_client_first().encode()})
        client.set_server_first(first["auth_bytes"].decode())
        last = connection.ask(ApiKey.SASL_AUTHENTICATE, 2, {"auth_bytes": client.get_client_final().encode()})
        client.set_server_final(last["auth_bytes"].decode())
        return connection.socket

    def create_once(self, name: str, **configs: str) -> bytes:
        if name not in self._made:
            self._made[name] = self.create(name, **configs)
        return self._made[name]

    def create(self, name: str, **configs: str) -> bytes:
        """A topic with one partition. Returns its id."""
        request = plausible(ApiKey.CREATE_TOPICS, 7, Known(bytes(16), "", -1, -1, "", "", "", "", 0))
        request["topics"][0].update(name=name, assignments=[], num_partitions=1)
        request["topics"][0]["configs"] = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
        answer = self._ask_until_ready(ApiKey.CREATE_TOPICS, 7, request)
        return bytes(answer["topics"][0]["topic_id"])

    def _ask_until_ready(self, api_key: ApiKey, version: int, request: Value) -> Value:
        answer: Value = {}

        def is_ready() -> bool:
            nonlocal answer
            answer = self._calm.ask(api_key, version, request)
            return not {error for _, error in errors_in(answer)} & _NOT_READY

        eventually(is_ready)
        return answer

    def _memory_bytes(self) -> int:
        memory = memory_bytes(self._attacked.pid)
        assert memory is not None
        return memory


def _began(pid: int) -> str:
    """When the process began, in the kernel's ticks. "": it has ended."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except FileNotFoundError:
        return ""
    return "" if state == "Z" else fields[18]


@contextmanager
def _one_process(folder: Path, sasl_port: int, user: str, seconds_max: float) -> Iterator[Attacked]:
    listener = ("--sasl-listener", f"SASL_PLAINTEXT://127.0.0.1:{sasl_port}")
    with running(folder, *listener, "--add-scram", user, seconds_max=seconds_max) as command:
        try:
            yield Attacked(command.process.pid, command.bootstrap_servers, sasl_port, lambda: command.logged)
        finally:
            command.process.kill()


@contextmanager
def _node(folder: Path, sasl_port: int, user: str) -> Iterator[Attacked]:
    folder.mkdir()
    users = folder / "users"
    users.write_text(user, encoding="utf-8")
    settings = {
        "gateway-1": {"PENSTOCK_SASL_LISTENER": f"SASL_PLAINTEXT://127.0.0.1:{sasl_port}"},
        "controller-1": {"PENSTOCK_ADD_SCRAM_FILE": str(users)},
    }
    with LocalCluster(folder, roles=NODE_ROLES, environment_of=settings) as cluster:
        names = [name for name in cluster.names if name != "etcd"]
        logged = lambda: "\n".join(cluster.log(name) for name in names)  # noqa: E731
        yield Attacked(cluster.pid("node-1"), cluster.bootstrap, sasl_port + 1, logged)


@contextmanager
def attacked_cluster(folder: Path, seconds_max: float, *, node: bool) -> Iterator[AttackedCluster]:
    """`node`: of role `node`. Otherwise in one process, which ends after `seconds_max`."""
    reservation = reserve_ports(2)
    user = f"{MECHANISM}=[name={USER},password={PASSWORD}]"
    with ExitStack() as ending:
        ending.callback(reservation.release)
        made = _node(folder, reservation.first, user) if node else _one_process(folder, reservation.first, user, seconds_max)
        cluster = AttackedCluster(ending.enter_context(made))
        yield cluster
        cluster.close()


class AttackedClusters:
    """Either kind, once it is asked for."""

    def __init__(self, folder: Path, seconds_max: float) -> None:
        self._folder, self._seconds_max = folder, seconds_max
        self._ending = ExitStack()
        self._running: dict[bool, AttackedCluster] = {}

    def of(self, *, node: bool) -> AttackedCluster:
        if node not in self._running:
            folder = self._folder / ("node" if node else "dev")
            self._running[node] = self._ending.enter_context(attacked_cluster(folder, self._seconds_max, node=node))
        return self._running[node]

    def __enter__(self) -> "AttackedClusters":
        return self

    def __exit__(self, *ended: object) -> None:
        self._ending.close()
