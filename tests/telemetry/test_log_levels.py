"""Levels of loggers, by Kafka's names."""

import logging
from collections.abc import Iterator

import pytest

from libs.telemetry.level_switches import Switches
from libs.telemetry.log_levels import LEVELS, Refused, levels, logger_names, set_level

ROOM, LOGGER = "levels_of_tests.room", "levels_of_tests.room.one"


@pytest.fixture(autouse=True)
def logger() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    before = root.level
    yield logging.getLogger(LOGGER)
    root.setLevel(before)
    for name in (ROOM, LOGGER):
        logging.getLogger(name).setLevel(logging.NOTSET)
    Switches.look()


def test_every_logger_has_the_level_in_force_and_so_have_those_above() -> None:
    logging.getLogger().setLevel(logging.WARNING)
    described = levels()
    assert {described[name] for name in ("root", "levels_of_tests", ROOM, LOGGER)} == {"WARN"}
    assert list(described) == sorted(logger_names())


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_of_its_own_holds_for_what_is_below_until_it_is_taken_away(level: str, logger: logging.Logger) -> None:
    logging.getLogger().setLevel(logging.ERROR)
    set_level(ROOM, level, "me")
    assert (levels()[ROOM], levels()[LOGGER], levels()["levels_of_tests"]) == (level, level, "ERROR")
    assert logger.isEnabledFor(LEVELS[level])
    assert not logger.isEnabledFor(LEVELS[level] - 1)
    set_level(ROOM, None, "me")
    assert (levels()[ROOM], levels()[LOGGER]) == ("ERROR", "ERROR")


def test_the_root_loggers_level_is_inherited() -> None:
    set_level("root", "DEBUG", "me")
    assert levels()[LOGGER] == "DEBUG"


@pytest.mark.parametrize(
    ("number", "name"), [(1, "TRACE"), (5, "TRACE"), (9, "TRACE"), (15, "DEBUG"), (35, "WARN"), (99, "FATAL")]
)
def test_a_level_without_a_name_bears_that_of_the_next_lower_one(number: int, name: str, logger: logging.Logger) -> None:
    logger.setLevel(number)
    assert levels()[LOGGER] == name


def test_a_change_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "process"):
        set_level(LOGGER, "DEBUG", "app from tcp:10.0.0.7:1")
    (record,) = caplog.records
    assert record.getMessage() == "log level changed"
    assert record.fields == {"changed": LOGGER, "to": "DEBUG", "asked_by": "app from tcp:10.0.0.7:1"}  # type: ignore[attr-defined]


@pytest.mark.parametrize(("before", "after"), [("INFO", "FATAL"), ("FATAL", "INFO"), ("ERROR", "DEBUG")])
def test_nobody_silences_a_process_or_lets_it_speak_without_a_trace(
    caplog: pytest.LogCaptureFixture, before: str, after: str
) -> None:
    own = logging.getLogger("process")
    level = own.level
    try:
        own.setLevel(LEVELS[before])
        set_level(own.name, after, "me")
    finally:
        own.setLevel(level)
    assert [record.getMessage() for record in caplog.records] == ["log level changed"]


@pytest.mark.parametrize(("name", "level"), [("no.such.logger", "INFO"), (LOGGER, "LOUD"), (LOGGER, "info"), ("root", None)])
def test_a_change_that_cannot_be_made_is_refused(name: str, level: str | None) -> None:
    before = levels()
    with pytest.raises(Refused):
        set_level(name, level, "me")
    assert levels() == before
    assert "no.such.logger" not in logging.root.manager.loggerDict


def test_switches_follow_their_logger_and_those_above(logger: logging.Logger) -> None:
    logging.getLogger().setLevel(logging.INFO)
    switches = Switches(logger)
    seen = []
    for name, level in ((LOGGER, "DEBUG"), (LOGGER, "TRACE"), (LOGGER, None), ("root", "TRACE"), (ROOM, "INFO")):
        set_level(name, level, "me")
        seen.append((switches.debug, switches.trace))
    assert seen == [(True, False), (True, True), (False, False), (True, True), (False, False)]
