"""Stories of one replica: its high watermark, its ISR, and the effects of each step. The node is 1."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from libs.cluster.records import InSync
from services.storage.core import effects
from services.storage.core.replication.leader.follower_progress import LagLimits
from services.storage.core.replication.leader.in_sync import Proposal
from services.storage.core.replication.leader.replica import Replica
from services.storage.core.replication.leadership import Lead
from tests.support.stories import Command, check_story

STORIES = sorted((Path(__file__).parent / "stories").glob("*.txt"))
INCARNATION = 10
EFFECTS = {
    effects.HIGH_WATERMARK_ROSE: "high watermark rose",
    effects.LOG_START_ROSE: "log start rose",
    effects.LEAST_LOG_START_MOVED: "least log start moved",
    effects.FOLLOWER_MAY_JOIN: "a follower may join",
    effects.ISR_CHANGED: "the ISR changed",
}


class Stage:
    """Plays commands on a replica."""

    def __init__(self) -> None:
        self.replica = Replica(1, log_end=0, durable=0, high_watermark=0, synced=False)
        self.proposal: Proposal | None = None

    def run(self, commands: Sequence[Command]) -> list[str]:
        lines: list[str] = []
        for command in commands:
            lines += getattr(self, f"_{command.verb}")(command) or []
        noted = self.replica.take_effects()
        lines += [f"effect: {name}" for flag, name in EFFECTS.items() if noted & flag]
        return [*lines, self._numbers()]

    def _numbers(self) -> str:
        replica = self.replica
        isr = ",".join(str(node) for node in sorted(replica.isr.committed)) or "none"
        maximal = ",".join(str(node) for node in sorted(replica.isr.maximal())) or "none"
        also = f" (maximal {maximal})" if maximal != isr else ""
        return f"high watermark {replica.high_watermark}, log end {replica.log_end}, ISR {isr}{also}"

    def _replica(self, command: Command) -> None:
        end = command.number("log_end", 0)
        synced = command.arguments["durability"] == "synced"
        self.replica = Replica(1, log_end=end, durable=end, high_watermark=command.number("high_watermark", 0), synced=synced)
        self.replica.configure(synced=synced, min_in_sync=command.number("min_in_sync", 1))

    def _configure(self, command: Command) -> None:
        synced = command.arguments["durability"] == "synced"
        self.replica.configure(synced=synced, min_in_sync=command.number("min_in_sync"))

    def _become_leader(self, command: Command) -> None:
        self.replica.become_leader(Lead(command.number("epoch"), _members(command), 0, (1, 2, 3), INCARNATION))

    def _become_follower(self, command: Command) -> None:
        self.replica.become_follower(command.number("epoch"))

    def _append(self, command: Command) -> None:
        self.replica.appended(command.number("to"))

    def _sync(self, command: Command) -> None:
        self.replica.synced_to(command.number("to"))

    def _pull(self, command: Command) -> None:
        self.replica.reported(
            command.number("node"),
            command.number("incarnation", INCARNATION),
            log_end=command.number("log_end"),
            durable=command.number("durable", 0),
            now=command.number("at"),
            contact=SimpleNamespace(alive_at=float(command.number("at"))),
        )

    def _progress(self, command: Command) -> None:
        self.replica.made_durable(command.number("node"), INCARNATION, command.number("durable"), command.number("at"))

    def _look(self, command: Command) -> list[str]:
        limits = LagLimits(command.number("lag_s"))
        self.proposal = self.replica.decide(command.number("at"), limits, lambda node, incarnation: True)
        if self.proposal is None:
            return ["no proposal"]
        members = [f"{node}" if life == INCARNATION else f"{node}:{life}" for node, life in sorted(self.proposal.isr)]
        return [f"proposes ISR {','.join(members)}"]

    def _answer(self, command: Command) -> None:
        self.replica.isr_shown(command.number("partition_epoch"), _members(command))

    def _refuse(self, command: Command) -> None:
        assert self.proposal is not None
        self.replica.isr_refused(self.proposal)

    def _truncate(self, command: Command) -> None:
        self.replica.truncated_to(command.number("to"))

    def _copy(self, command: Command) -> None:
        self.replica.copied(command.number("log_end"), command.number("high_watermark"))


def _members(command: Command) -> tuple[InSync, ...]:
    """`1,2,3:11`: node 3 in incarnation 11."""
    found = []
    for member in command.arguments["isr"].split(","):
        node, _, incarnation = member.partition(":")
        found.append(InSync(int(node), int(incarnation or INCARNATION)))
    return tuple(found)


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_story(path: Path) -> None:
    check_story(path, Stage().run)
