"""Logs that the cleaner leaves alone for a while: what failed is tried again later and later, what is damaged not at all."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from libs.commitlog.errors import LogDamaged, LogWriteError
from services.storage.hosted import Hosted

RETRY_S, RETRY_S_MAX = 60.0, 3600.0


@dataclass(slots=True)
class Trouble:
    """`until` is None: until the log is opened again. No failures: it only changed meanwhile."""

    reason: str
    failures: int
    until: float | None


class LeftAlone:
    """`now`: in loop time."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.troubles: dict[Hosted, Trouble] = {}

    def __contains__(self, hosted: Hosted) -> bool:
        trouble = self.troubles.get(hosted)
        return trouble is not None and (trouble.until is None or trouble.until > self._now())

    def failed(self, hosted: Hosted, error: Exception) -> Trouble:
        before = self.troubles.get(hosted)
        failures = before.failures + 1 if before is not None else 1
        damaged = isinstance(error, LogDamaged | LogWriteError)
        until = None if damaged else self._now() + min(RETRY_S * 2 ** min(failures - 1, 16), RETRY_S_MAX)
        trouble = self.troubles[hosted] = Trouble(f"{type(error).__name__}: {error}", failures, until)
        return trouble

    def put_off(self, hosted: Hosted, reason: str, seconds: float) -> None:
        self.troubles[hosted] = Trouble(reason, 0, self._now() + seconds)

    def settled(self, hosted: Hosted) -> None:
        self.troubles.pop(hosted, None)

    def forget_all_but(self, here: Collection[Hosted]) -> None:
        """A log that is opened again is another one."""
        self.troubles = {hosted: trouble for hosted, trouble in self.troubles.items() if hosted in here}

    def has_failed(self, hosted: Hosted) -> bool:
        trouble = self.troubles.get(hosted)
        return trouble is not None and trouble.failures > 0

    def debug(self) -> object:
        return {
            str(hosted): {
                "reason": trouble.reason,
                "failures": trouble.failures,
                "again_in_s": None if trouble.until is None else round(trouble.until - self._now(), 1),
            }
            for hosted, trouble in self.troubles.items()
        }
