"""What a gateway asks other processes about their loggers, for clients that describe or change a broker's loggers (KIP-412).

Names are those of `libs/telemetry/loggers.py`, Kafka's included. Levels are Kafka's: FATAL, ERROR, WARN, INFO, DEBUG, TRACE.
"""

from libs.lean_dataclass import dataclass

DESCRIBE = "log_levels.describe"
CHANGE = "log_levels.change"


@dataclass(frozen=True, slots=True)
class DescribeLogLevels:
    """Which level is in force for each logger of this process?"""


@dataclass(frozen=True, slots=True)
class LogLevels:
    """The answer to both requests: (logger, level)."""

    levels: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class LevelChange:
    logger: str
    level: str | None  # None: it inherits again


@dataclass(frozen=True, slots=True)
class ChangeLogLevels:
    """Changes these levels until the process ends. Loggers that it does not have are passed over."""

    changes: tuple[LevelChange, ...]
    asked_by: str
