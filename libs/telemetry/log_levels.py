"""The levels of this process's loggers, by Kafka's names. They can be changed while it runs, and last until it ends."""

import logging
from typing import Final

from libs.telemetry.logs import fields

log = logging.getLogger(__name__)

ROOT: Final = "root"
"""The logger from which all others inherit. Kafka and Python call it the same."""
LEVELS: Final = {"FATAL": 50, "ERROR": 40, "WARN": 30, "INFO": 20, "DEBUG": 10, "TRACE": 5}
"""Python's levels by Kafka's names, from the fewest to the most messages. Python has no TRACE: nothing logs there."""


def logger_names() -> set[str]:
    """Every logger that was made, and those above it: `services.gateway` is one whose level holds for a whole room."""
    return {ROOT, *list(logging.root.manager.loggerDict)}


def levels() -> dict[str, str]:
    """The level in force of each logger, its own or the inherited one, by name."""
    return {name: _name_of(logging.getLogger(name).getEffectiveLevel()) for name in sorted(logger_names())}


def set_level(name: str, level: str | None, asked_by: str) -> None:
    """Gives a logger a level of its own. None: it inherits. The root logger always has one.

    The change is logged under the level that lets more through, so that nobody silences a process without a trace.
    """
    assert level is not None or name != ROOT
    wanted = LEVELS[level] if level is not None else logging.NOTSET
    if logging.getLogger(name).level == wanted:
        return
    seen = log.isEnabledFor(logging.WARNING)
    details = fields(logger=name, level=level or "inherited", asked_by=asked_by)
    if seen:
        log.warning("log level changed", extra=details)
    logging.getLogger(name).setLevel(wanted)
    if not seen:
        log.warning("log level changed", extra=details)


def _name_of(number: int) -> str:
    return next((name for name, least in LEVELS.items() if number >= least), "TRACE")
