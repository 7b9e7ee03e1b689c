"""Stories of one classic group: joins, generations, sessions and static members, with each answer and the group's state."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from libs.wire.errors import ErrorCode
from libs.wire.messages.join_group import JoinGroupResponse
from libs.wire.messages.sync_group import SyncGroupResponse
from tests.group_coordinator.classic.stage import Stage
from tests.group_coordinator.one_shard import CoordinatorRequest
from tests.support.stories import Command, check_story

STORIES = sorted((Path(__file__).parent / "stories").glob("*.txt"))
GROUP = "g"


class Members:
    """Plays commands of named members on a coordinator of one group."""

    def __init__(self) -> None:
        self.stage = Stage()
        self.ids: dict[str, str] = {}
        """Name in the story → member id."""
        self.generations: dict[str, int] = {}
        self._unanswered: list[tuple[str, str, CoordinatorRequest]] = []

    def run(self, commands: Sequence[Command]) -> list[str]:
        lines: list[str] = []
        for command in commands:
            getattr(self, f"_{command.verb}")(command)
            lines += self._answers()
        lines += [f"{name}: {api} waits" for name, api, _ in self._unanswered]
        return [*lines, self._state()]

    def _answers(self) -> list[str]:
        answered = [each for each in self._unanswered if not each[2].waits]
        self._unanswered = [each for each in self._unanswered if each[2].waits]
        return [f"{name}: {api} {self._said(name, request)}" for name, api, request in answered]

    def _said(self, name: str, request: CoordinatorRequest) -> str:
        if request.error:
            return ErrorCode(request.error).name
        match request.reply:
            case JoinGroupResponse() as reply:
                self.ids[name] = reply.member_id
                self.generations[name] = reply.generation_id
                members = ",".join(sorted(self._name(member.member_id) for member in reply.members))
                leads = f", leads {members}" if members else ""
                return f"generation {reply.generation_id}{leads}"
            case SyncGroupResponse() as reply:
                return f"assigned {reply.assignment.decode() or 'nothing'}"
        return "NONE"

    def _name(self, member_id: str) -> str:
        return next((name for name, known in self.ids.items() if known == member_id), member_id)

    def _state(self) -> str:
        group = self.stage.groups.get(GROUP)
        return "no group" if group is None else f"{group.state.value}, generation {group.facts.generation}"

    def _join(self, command: Command) -> None:
        """Joins as a client does: it gets its member id first, unless it has one or is a static member."""
        name, instance = command.arguments["member"], command.arguments.get("instance")
        offered = tuple((each, b"t") for each in command.arguments.get("protocols", "range").split(","))
        how = {"instance": instance, "protocols": offered, "session_ms": command.number("session_ms", 10_000)}
        if name not in self.ids and instance is None:
            self.ids[name] = self.stage.join(**how).reply.member_id  # type: ignore[arg-type]
        request = self.stage.join(self.ids.get(name, ""), **how)  # type: ignore[arg-type]
        self._unanswered.append((name, "JoinGroup", request))

    def _sync(self, command: Command) -> None:
        name = command.arguments["member"]
        given = {self.ids[who]: what.encode() for who, what in command.arguments.items() if who in self.ids}
        request = self.stage.sync(self.ids[name], command.number("generation", self.generations[name]), given)
        self._unanswered.append((name, "SyncGroup", request))

    def _heartbeat(self, command: Command) -> None:
        name = command.arguments["member"]
        generation = command.number("generation", self.generations[name])
        error = self.stage.heartbeat(self.ids[name], generation, instance=command.arguments.get("instance"))
        self._instant(name, "Heartbeat", error)

    def _leave(self, command: Command) -> None:
        name = command.arguments["member"]
        reply = self.stage.leave(self.ids[name])
        self._instant(name, "LeaveGroup", reply.error_code or reply.members[0].error_code)

    def _wait(self, command: Command) -> None:
        alive = [name for name in command.arguments.get("alive", "").split(",") if name]
        members = [(self.ids[name], self.generations[name]) for name in alive]
        self.stage.wait_alive(command.number("ms"), *members)

    def _fail_over(self, command: Command) -> None:
        """Another coordinator reads the log. Requests that wait are lost with the connection."""
        self._unanswered.clear()
        self.stage.fail_over()

    def _instant(self, name: str, api: str, error: int) -> None:
        request = CoordinatorRequest(None)
        request.answered, request.failure = True, error
        if not error:
            request.reply = _Done()
        self._unanswered.append((name, api, request))


class _Done:
    error_code = 0


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_story(path: Path) -> None:
    check_story(path, Members().run)
