"""The log lines of the simulated services, as part of a run's story."""

import logging
import traceback

from libs.cluster.membership import Superseded
from libs.commitlog.model.errors import DirectoryRetired
from tests.simulation.cluster.loop import LIFE
from tests.simulation.cluster.world import World

ENDED = "stopping after a failure"
EXPECTED_ENDS = (OSError, DirectoryRetired, Superseded)
"""Of processes: a full or failed disk, or another one in their place."""


class ServiceLogs(logging.Handler):
    """The services' own log lines belong to the story; one with a traceback that nobody expected is a failure."""

    def __init__(self, world: World, *, verbose: bool) -> None:
        super().__init__(logging.INFO if verbose else logging.WARNING)
        self._world = world
        self.failures: list[str] = []

    def begin(self) -> None:
        root = logging.getLogger()
        self._before = root.handlers[:], root.level
        root.handlers[:] = [self]
        root.setLevel(self.level)

    def end(self) -> None:
        root = logging.getLogger()
        root.handlers[:], level = self._before
        root.setLevel(level)

    def emit(self, record: logging.LogRecord) -> None:
        life = LIFE.get()
        if life is not None and life.dead:
            return
        fields = getattr(record, "fields", {})
        said = ", ".join(f"{name}={value}" for name, value in fields.items())
        who = life.name if life is not None else "world"
        self._world.log_event(f"{who} [{record.levelname.lower()}] {record.getMessage()}" + (f" ({said})" if said else ""))
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            if record.getMessage() == ENDED and isinstance(error, EXPECTED_ENDS):
                return
            trace = "".join(traceback.format_exception(error))
            self.failures.append(f"{who}: {record.getMessage()}: {error!r}\n{trace}")
