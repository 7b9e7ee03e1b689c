"""The levels of this process's loggers. They can be changed while it runs, and last until it ends.

`loggers.py` names the loggers. Each can be named as Kafka names it, too.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from libs.telemetry.level_switches import TRACE, Switches
from libs.telemetry.loggers import ALIASES, CONCERNS, own_name
from libs.telemetry.logs import fields

log = logging.getLogger("process")

ROOT: Final = "root"
"""The logger from which all others inherit. Kafka and Python call it the same."""
LEVELS: Final = {"FATAL": 50, "ERROR": 40, "WARN": 30, "INFO": 20, "DEBUG": 10, "TRACE": TRACE}
"""Python's levels by Kafka's names, from the fewest to the most messages."""


class Refused(Exception):
    """A change that cannot be made, in Kafka's words. `unsupported`: the logger or the level is not known."""

    def __init__(self, message: str, *, unsupported: bool = False) -> None:
        super().__init__(message)
        self.unsupported = unsupported


def logger_names() -> set[str]:
    """Our loggers, Kafka's names of them, and every other logger that was made."""
    return {ROOT, *CONCERNS, *ALIASES, *list(logging.root.manager.loggerDict)}


def levels() -> dict[str, str]:
    """The level in force of each logger, its own or the inherited one, by name."""
    return {name: _name_of(logging.getLogger(own_name(name)).getEffectiveLevel()) for name in sorted(logger_names())}


def check(name: str, level: str | None) -> None:
    """Raises Refused for a change that `set_level` cannot make. `level` None: the logger shall inherit."""
    if name not in logger_names():
        raise Refused(f"Logger {name} does not exist!", unsupported=True)
    if level is None and name == ROOT:
        raise Refused("Removing the log level of the root logger is not allowed")
    if level is not None and level not in LEVELS:
        raise Refused(
            f"Cannot set the log level of {name} to {level} as it is not a supported log level. "
            f"Valid log levels are {', '.join(sorted(LEVELS))}",
            unsupported=True,
        )


def set_level(name: str, level: str | None, asked_by: str) -> None:
    """Gives a logger a level of its own. None: it inherits. The root logger always has one. Raises Refused.

    The change is logged under the level that lets more through, so that nobody silences a process without a trace.
    """
    check(name, level)
    logger = logging.getLogger(own_name(name))
    wanted = LEVELS[level] if level is not None else logging.NOTSET
    if logger.level == wanted:
        return
    seen = log.isEnabledFor(logging.WARNING)
    details = fields(changed=own_name(name), to=level or "inherited", asked_by=asked_by)
    if seen:
        log.warning("log level changed", extra=details)
    logger.setLevel(wanted)
    Switches.look()
    if not seen:
        log.warning("log level changed", extra=details)


def finest(several: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Of the levels of several processes: for each logger the level that lets the most through."""
    merged: dict[str, str] = {}
    for each in several:
        for name, level in each.items():
            if level in LEVELS and (name not in merged or LEVELS[level] < LEVELS[merged[name]]):
                merged[name] = level
    return dict(sorted(merged.items()))


def _name_of(number: int) -> str:
    return next((name for name, least in LEVELS.items() if number >= least), "TRACE")
