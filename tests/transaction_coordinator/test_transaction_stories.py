"""Stories of one transactional id: its producers, their epochs, and the outcome of each transaction."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from services.transaction_coordinator.core.requests import ProducerReply
from services.transaction_coordinator.core.transaction import NO_PRODUCER_ID, Producer, TopicPartition
from tests.support.stories import Command, check_story
from tests.transaction_coordinator.stage import TransactionStage

STORIES = sorted((Path(__file__).parent / "stories").glob("*.txt"))


class Producers:
    """Plays commands of named producers, which keep the producer id and epoch that they were told last."""

    def __init__(self) -> None:
        self.stage = TransactionStage()
        self.known: dict[str, Producer] = {}

    def run(self, commands: Sequence[Command]) -> list[str]:
        lines = [line for command in commands if (line := getattr(self, f"_{command.verb}")(command))]
        return [*lines, self._state()]

    def _init(self, command: Command) -> str:
        name = command.arguments["producer"]
        reply = self.stage.init(expected=self._expected(command, name), timeout_ms=command.number("timeout_ms", 60_000))
        return self._told(name, "InitProducerId", reply)

    def _expected(self, command: Command, name: str) -> Producer | None:
        if "epoch" in command.arguments:
            return self._producer(command, name)
        return self.known[name] if command.arguments.get("expected") == "yes" else None

    def _producer(self, command: Command, name: str) -> Producer:
        known = self.known[name]
        return Producer(command.number("id", known.producer_id), command.number("epoch", known.epoch))

    def _add(self, command: Command) -> str:
        name = command.arguments["producer"]
        reply = self.stage.add(self._producer(command, name), *partitions(command), version=command.number("version", 0))
        return f"{name}: AddPartitionsToTxn {reply.error_code.name}"

    def _verify(self, command: Command) -> str:
        name = command.arguments["producer"]
        reply = self.stage.verify(self._producer(command, name), *partitions(command))
        results = "".join(f", {topic}-{index} {error.name}" for (topic, index), error in sorted(reply.partitions.items()))
        return f"{name}: verification {reply.error_code.name}{results}"

    def _commit(self, command: Command) -> str:
        return self._end(command, commit=True)

    def _abort(self, command: Command) -> str:
        return self._end(command, commit=False)

    def _end(self, command: Command, *, commit: bool) -> str:
        name = command.arguments["producer"]
        reply = self.stage.end(self._producer(command, name), commit=commit, version=command.number("version", 0))
        if command.arguments.get("reply") == "lost":
            return f"{name}: EndTxn's reply is lost"
        return self._told(name, "EndTxn", reply)

    def _told(self, name: str, api: str, reply: ProducerReply) -> str:
        if reply.error_code:
            return f"{name}: {api} {reply.error_code.name}"
        self.known[name] = reply.producer
        return f"{name}: {api} NONE, producer id {reply.producer.producer_id}, epoch {reply.producer.epoch}"

    def _markers(self, command: Command) -> str:
        prepared = self.stage.write_markers()
        return f"markers with epoch {prepared.producer.epoch} to {listed(prepared.partitions) or 'nobody'}"

    def _wait(self, command: Command) -> None:
        self.stage.wait(command.number("ms"))

    def _fail_over(self, command: Command) -> None:
        self.stage.fail_over()

    def _spend_epochs(self, command: Command) -> None:
        """The producer takes epochs until it has that one."""
        name = command.arguments["producer"]
        while self.known[name].epoch < command.number("to"):
            self.known[name] = self.stage.init(expected=self.known[name]).producer

    def _state(self) -> str:
        known = self.stage.transactions.get("t")
        if known is None:
            return "no transactional id"
        following = f", then producer id {known.next_producer_id}" if known.next_producer_id != NO_PRODUCER_ID else ""
        to = f", {listed(known.partitions)}" if known.partitions else ""
        return f"{known.state.value}, producer id {known.producer.producer_id}, epoch {known.producer.epoch}{following}{to}"


def partitions(command: Command) -> list[TopicPartition]:
    """`to=a-0,b-1`"""
    named = (each.rpartition("-") for each in command.arguments["to"].split(","))
    return [(topic, int(index)) for topic, _, index in named]


def listed(named: frozenset[TopicPartition]) -> str:
    return ",".join(f"{topic}-{index}" for topic, index in sorted(named))


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_story(path: Path) -> None:
    check_story(path, Producers().run)
