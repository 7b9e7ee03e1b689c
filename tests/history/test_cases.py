"""Each rule, and its legal neighbour: `cases/` has them as text."""

from pathlib import Path

import pytest

from tests.history.judge import judge
from tests.history.model import History
from tests.history.story import history_of


def _cases() -> list[tuple[str, str, list[str]]]:
    found = []
    for file in sorted((Path(__file__).parent / "cases").glob("*.txt")):
        for case in file.read_text(encoding="utf-8").split("## ")[1:]:
            title, _, body = case.partition("\n")
            text, _, wanted = body.partition("----\n")
            found.append((f"{file.stem}: {title}", text, sorted(wanted.split("\n"))))
    return found


CASES = _cases()


@pytest.mark.parametrize(("text", "wanted"), [pytest.param(text, wanted, id=title) for title, text, wanted in CASES])
def test_a_hand_made_history_gets_the_verdict_that_stands_below_it(text: str, wanted: list[str]) -> None:
    assert found_in(history_of(text)) == [line for line in wanted if line]


def test_there_are_enough_of_them_and_no_two_have_one_title() -> None:
    assert len(CASES) >= 60
    assert len({title for title, _, _ in CASES}) == len(CASES)


def found_in(history: History) -> list[str]:
    findings = judge(history).findings
    return sorted(
        " ".join(str(part) for part in (finding.kind, finding.key, *finding.values) if part is not None) for finding in findings
    )
