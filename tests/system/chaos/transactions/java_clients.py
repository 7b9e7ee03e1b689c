"""Producers, copiers and a reader of Java, which do what those of librdkafka do: the threads of programs/JavaClients.java."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.compat.clients.transactions.program import Program
from tests.compat.kafka.jars import KafkaJars
from tests.compat.kafka.tools import TOOL
from tests.support.polling import eventually
from tests.support.requirements import ROOT
from tests.system.chaos.transactions.committed_reads import CommittedRead
from tests.system.chaos.transactions.tellers import PARTITIONS, TOPIC, Transfers

PROGRAM = Path(__file__).parent / "programs" / "JavaClients.java"
COPY = "java-copies"
TELLERS, COPIERS = 2, 2
TRANSACTIONAL_IDS = frozenset(f"java-teller-{number}" for number in range(TELLERS))
ENDED_WITHIN_S = 150.0
"""A call of Java's clients takes 60 s at most, and two may follow each other."""


class JavaClients:
    """Use as a context manager. `protocol`: that of the copiers' group, `classic` or `consumer`. What the process says counts,
    whatever happens to it later."""

    def __init__(self, bootstrap: str, protocol: str, seed: int, directory: Path) -> None:
        directory.mkdir()
        self._bootstrap, self._protocol, self._seed, self._directory = bootstrap, protocol, seed % (1 << 31), directory
        self._programs: list[Program] = []
        """One for each life of the process."""

    def kill_and_start(self) -> None:
        """SIGKILL. The next process has the same transactional ids."""
        self._program.kill()
        self._start()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        self._program.stop()
        try:
            yield
        finally:
            self._program.go_on()

    def _start(self) -> None:
        life = len(self._programs)
        numbers = map(str, (PARTITIONS, TELLERS, COPIERS, self._seed, life))
        arguments = (self._bootstrap, TOPIC, COPY, self._protocol, *numbers)
        command = KafkaJars(ROOT).command(str(PROGRAM), *arguments, options=TOOL)
        self._programs.append(Program(command, self._directory / str(life)))
        self._program.start()

    @property
    def _program(self) -> Program:
        return self._programs[-1]

    def end_transfers(self) -> None:
        """Returns once the producers have closed."""
        self._program.say("end transfers")
        eventually(lambda: self._has_ended() or "end of transfers" in self._program.lines(), ENDED_WITHIN_S)

    def end(self) -> None:
        """Returns once the copiers and the reader have closed, too."""
        self._program.say("end all")
        eventually(self._has_ended, ENDED_WITHIN_S)

    def transfers(self) -> Transfers:
        transfers = Transfers()
        for told in self._told():
            if "transfer" in told:
                transfers.outcomes[told["transfer"]] = told["outcome"]
            if "error" in told:
                transfers.errors.append(told["error"])
        return transfers

    def aborted_copies(self) -> int:
        return sum("aborted_copy" in told for told in self._told())

    def reads(self) -> list[CommittedRead]:
        return [CommittedRead("java", told["ends"], told["digests"], told["torn"]) for told in self._told() if "ends" in told]

    def _told(self) -> Iterator[dict[str, Any]]:
        lines = (line for program in self._programs for line in program.lines())
        return (json.loads(line) for line in lines if line.startswith("{"))

    def _has_ended(self) -> bool:
        return self._program.has_ended()

    def __enter__(self) -> "JavaClients":
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._program.end()
