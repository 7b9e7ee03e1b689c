"""The cluster of one process that is attacked, what its requests may name, and the client that must notice nothing."""

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from scramp import ScramClient

from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.records import Record, build_batch, iter_records
from tests.dev.bounds.connection import Connection, errors_in
from tests.dev.bounds.requests import Known, plausible
from tests.dev.bounds.schema_codec import Value
from tests.dev.command import Command, running
from tests.support.polling import eventually
from tests.support.ports import reserve_ports
from tests.support.process_memory import memory_bytes

USER, PASSWORD, MECHANISM = "alice", "alice-secret", "SCRAM-SHA-256"
CALM, ATTACKED = "calm", "numbers"
MEMORY_GROWTH_MAX: Final = 256 << 20
FAILURES: Final = re.compile(r"Traceback|\bERROR\b|\bCRITICAL\b")
_NOT_READY: Final = {int(ErrorCode.COORDINATOR_NOT_AVAILABLE), int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)}


class AttackedCluster:
    def __init__(self, command: Command, sasl_port: int) -> None:
        self._command = command
        host, _, port = command.bootstrap_servers.rpartition(":")
        self.plain, self.sasl = (host.strip("[]"), int(port)), ("127.0.0.1", sasl_port)
        self._calm = Connection(*self.plain)
        self._produced = 0
        for kind in (0, 1):
            self._ask_until_ready(ApiKey.FIND_COORDINATOR, 2, {"key": "any", "key_type": kind})
        ids = {name: self._create(name) for name in (CALM, ATTACKED)}
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

    def check(self) -> None:
        """Raises unless the process lives, has logged no failure, and has taken no more memory than it may."""
        assert self._command.process.poll() is None, self._command.logged[-4_000:]
        failures = [line for line in self._command.logged.splitlines() if FAILURES.search(line)]
        assert not failures, "\n".join(self._command.logged.splitlines()[-60:])
        grown = self._memory_bytes() - self._memory
        assert grown <= MEMORY_GROWTH_MAX, f"{grown >> 20} MiB more than before"

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

    def _create(self, name: str) -> bytes:
        request = plausible(ApiKey.CREATE_TOPICS, 7, Known(bytes(16), "", -1, -1, "", "", "", "", 0))
        request["topics"][0].update(name=name, assignments=[], num_partitions=1)
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
        memory = memory_bytes(self._command.process.pid)
        assert memory is not None
        return memory


@contextmanager
def attacked_cluster(folder: Path, seconds_max: float) -> Iterator[AttackedCluster]:
    reservation = reserve_ports(2)
    listener = ("--sasl-listener", f"SASL_PLAINTEXT://127.0.0.1:{reservation.first}")
    user = ("--add-scram", f"{MECHANISM}=[name={USER},password={PASSWORD}]")
    try:
        with running(folder, *listener, *user, seconds_max=seconds_max) as command:
            try:
                cluster = AttackedCluster(command, reservation.first)
                yield cluster
                cluster.close()
            finally:
                command.process.kill()
    finally:
        reservation.release()
