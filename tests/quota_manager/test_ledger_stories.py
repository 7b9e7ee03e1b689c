"""The quota manager's ledger, told as stories. All gateways are heard all the time."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from libs.rpc.contracts.quotas import Grant, Need
from services.quota_manager.core.ledger import Ledger
from tests.support.stories import Command, check_story

TENANT = (0, "tenant", "")
STORIES = sorted((Path(__file__).parent / "stories").glob("*.txt"))


class Teller:
    def __init__(self) -> None:
        self._now = 0.0
        self._rate: float | None = 100.0
        self._ledger = Ledger(lambda _: self._rate)

    def run(self, commands: Sequence[Command]) -> list[str]:
        brought = []
        for command in commands:
            match command.verb:
                case "after":
                    self._now += command.number("ms") / 1000
                case "limit":
                    self._rate = command.number("rate") if "rate" in command.arguments else None
                case "ask":
                    brought.append(self._asked(command))
                case verb:
                    raise AssertionError(f"no command {verb}")
        return brought

    def _asked(self, command: Command) -> str:
        wanted, debt, returned = (float(command.number(name, 0)) for name in ("wanted", "debt", "returned"))
        need = Need(TENANT, wanted, debt, returned)
        (grant,) = self._ledger.grant(command.number("gateway"), [need], self._now, self._now)
        return _told(grant)


def _told(grant: Grant) -> str:
    if not grant.limited:
        return "no limit"
    elsewhere = f", {grant.owed_elsewhere:.1f} owed elsewhere" if grant.owed_elsewhere else ""
    return f"{grant.tokens:.1f} tokens{elsewhere}"


@pytest.mark.parametrize("story", STORIES, ids=[each.stem for each in STORIES])
def test_a_story(story: Path) -> None:
    check_story(story, Teller().run)
