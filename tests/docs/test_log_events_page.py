"""The page of log events has a row for each line that the code can write, and for no other."""

import ast
import re

import pytest

from tests.docs.house_rules import ROOT
from tests.docs.log_advice.faults import FAULTS
from tests.docs.log_events_page import PAGE, SECTIONS, events_with_rows, page
from tests.docs.log_lines import LEVELS, Line, Unreadable, lines_of, services_by_module, worst_level, written_lines

SENTENCE_WORDS_MAX = 25
ADVICE = {event: advice for section in SECTIONS.values() for event, advice in section.items()}


def test_the_page_of_log_events_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m tests.docs.log_events_page"


def test_every_line_has_a_row() -> None:
    missing = sorted(written_lines().keys() - set(events_with_rows()))
    assert missing == [], "give them a row in tests/docs/log_advice/"


def test_every_row_has_a_line() -> None:
    assert sorted(set(events_with_rows()) - written_lines().keys()) == []


def test_no_event_has_two_rows() -> None:
    rows = events_with_rows()
    assert sorted({event for event in rows if rows.count(event) > 1}) == []


def test_faults_are_logged_with_a_traceback() -> None:
    lines = written_lines()
    assert [event for event in FAULTS if not any(line.fault for line in lines[event])] == []


def test_every_line_belongs_to_a_service() -> None:
    services = services_by_module()
    assert [line for lines in written_lines().values() for line in lines if not services[line.module]] == []


def test_advice_is_in_short_sentences() -> None:
    texts = [*FAULTS.values(), *(text for advice in ADVICE.values() for text in advice)]
    plain = [re.sub(r"\]\([^)]*\)", "]", text) for text in texts]
    assert [text for text in plain if not text.endswith((".", ".]"))] == []
    sentences = [sentence for text in plain for sentence in re.split(r"(?<=[.:;]) ", text)]
    assert [sentence for sentence in sentences if len(sentence.split()) > SENTENCE_WORDS_MAX] == []


def test_links_of_the_page_lead_somewhere() -> None:
    for target, anchor in set(re.findall(r"\]\(([^)#:]+)#?([^)]*)\)", PAGE.read_text(encoding="utf-8"))):
        linked = PAGE.parent / target
        assert linked.exists(), target
        headings = re.findall(r"^#+ (.+)$", linked.read_text(encoding="utf-8"), re.MULTILINE)
        anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
        assert not anchor or anchor in anchors, f"{target}#{anchor}"


def found(code: str) -> list[tuple[str, str, bool]]:
    return [(line.event, line.level, line.fault) for line in lines_of({"libs.any": ast.parse(code)})]


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ('log.warning("plain", extra=fields(a=1))', ("plain", "warning", False)),
        ('log.warning("%s has %d", a, b)', ("… has …", "warning", False)),
        ('log.error(f"a {kind} fails")', ("a … fails", "error", False)),
        ('log.exception("a fault")', ("a fault", "error", True)),
        ('log.error("a fault", exc_info=error)', ("a fault", "error", True)),
        ('lines.write(key, logging.WARNING, "limited", path=path)', ("limited", "warning", False)),
        ('raise CannotRun("refused", path=path)', ("refused", "error", False)),
        ('def say(self):\n    event = "assigned"\n    log.critical(event)', ("assigned", "critical", False)),
        (
            'class A:\n    def say(self, text):\n        log.error(text)\n    def act(self):\n        self.say("given")',
            ("given", "error", False),
        ),
        (
            'def say():\n    level = logging.INFO if fine else logging.ERROR\n    log.log(level, "either")',
            ("either", "error", False),
        ),
    ],
)
def test_a_line_is_found_however_it_is_written(code: str, line: tuple[str, str, bool]) -> None:
    assert found(code) == [line]


def test_both_texts_of_a_choice_are_found() -> None:
    assert found('log.error("one" if a else "other")') == [("one", "error", False), ("other", "error", False)]


@pytest.mark.parametrize(
    "code", ['log.info("hello")', 'log.log(logging.INFO, "hello")', 'lines.write(key, logging.INFO, "hello")']
)
def test_milder_lines_are_left_out(code: str) -> None:
    assert found(code) == []


def test_a_text_that_the_code_does_not_show_is_refused() -> None:
    with pytest.raises(Unreadable):
        found("def say(text):\n    log.error(text.upper())")


def test_an_event_of_several_levels_has_the_worst() -> None:
    assert worst_level([Line("e", level, "m", False) for level in LEVELS]) == "critical"


def test_the_page_is_linked_from_the_users_troubleshooting() -> None:
    assert "operate/log-events.md" in (ROOT / "docs" / "use" / "troubleshooting.md").read_text(encoding="utf-8")
