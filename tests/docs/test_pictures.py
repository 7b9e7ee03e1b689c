"""The tables of states are drawn, and as they are."""

from enum import Enum
from pathlib import Path

import pytest

from tests.docs.pictures import PAGES, drawn, picture, tables, with_pictures


class Light(Enum):
    GREEN = "green"
    RED = "quite red"


class Press(Enum):
    ONCE = "pressed"
    TWICE = "pressed again"


DRAWN = """stateDiagram-v2
    [*] --> Green
    Green --> QuiteRed: pressed / pressed again"""


def test_every_table_of_states_stands_in_a_page() -> None:
    assert tables() - drawn() == set()


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.name)
def test_the_pictures_of_a_page_are_up_to_date(page: Path) -> None:
    assert page.read_text(encoding="utf-8") == with_pictures(page.read_text(encoding="utf-8")), (
        "run python -m tests.docs.pictures"
    )


def test_events_that_lead_to_the_same_state_are_one_arrow() -> None:
    assert picture({(Light.GREEN, Press.ONCE): Light.RED, (Light.GREEN, Press.TWICE): Light.RED}) == DRAWN


def test_both_forms_of_a_table_are_drawn_alike() -> None:
    assert picture({Light.GREEN: {Press.ONCE: Light.RED, Press.TWICE: Light.RED}}) == DRAWN


def test_effects_are_not_drawn_and_what_changes_nothing_is_no_arrow() -> None:
    red = {Press.ONCE: (Light.RED, ("stop",)), Press.TWICE: (Light.RED, ())}
    assert picture({Light.GREEN: red, Light.RED: red}) == f"{DRAWN}\n    QuiteRed --> QuiteRed: pressed"


def test_a_picture_that_is_behind_its_table_is_noticed() -> None:
    asked = "<!-- drawn from services/controller/core/model/controller_states.py:CONTROLLER_TRANSITIONS -->\n"
    made = with_pictures(f"before\n{asked}after\n")
    assert with_pictures(made.replace("Campaigning", "Sleeping")) == made
    assert made.startswith(f"before\n{asked}```mermaid\n")
    assert made.endswith("```\nafter\n")
