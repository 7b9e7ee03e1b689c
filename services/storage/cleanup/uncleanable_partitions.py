"""Partitions that the cleaner skips: after failures for longer and longer, after damage until the log is opened again."""

from collections.abc import Callable, Collection

from libs.commitlog.model.errors import LogDamaged, LogWriteError
from libs.lean_dataclass import dataclass
from services.storage.partition.partition import Partition

RETRY_S, RETRY_S_MAX = 60.0, 3600.0


@dataclass(slots=True)
class Trouble:
    """A failure of one log. `until` None: until the log is opened again. 0 failures: the log only changed during the run."""

    reason: str
    failures: int
    until: float | None


class UncleanablePartitions:
    """The failures. `now` gives loop time."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.troubles: dict[Partition, Trouble] = {}

    def __contains__(self, partition: Partition) -> bool:
        trouble = self.troubles.get(partition)
        return trouble is not None and (trouble.until is None or trouble.until > self._now())

    def failed(self, partition: Partition, error: Exception) -> Trouble:
        before = self.troubles.get(partition)
        failures = before.failures + 1 if before is not None else 1
        damaged = isinstance(error, LogDamaged | LogWriteError)
        until = None if damaged else self._now() + min(RETRY_S * 2 ** min(failures - 1, 16), RETRY_S_MAX)
        trouble = self.troubles[partition] = Trouble(f"{type(error).__name__}: {error}", failures, until)
        return trouble

    def put_off(self, partition: Partition, reason: str, seconds: float) -> None:
        self.troubles[partition] = Trouble(reason, 0, self._now() + seconds)

    def settled(self, partition: Partition) -> None:
        self.troubles.pop(partition, None)

    def forget_all_but(self, here: Collection[Partition]) -> None:
        """Forgets closed logs: a log that is opened again is tried again."""
        self.troubles = {partition: trouble for partition, trouble in self.troubles.items() if partition in here}

    def has_failed(self, partition: Partition) -> bool:
        trouble = self.troubles.get(partition)
        return trouble is not None and trouble.failures > 0

    def debug(self) -> object:
        return {
            str(partition): {
                "reason": trouble.reason,
                "failures": trouble.failures,
                "again_in_s": None if trouble.until is None else round(trouble.until - self._now(), 1),
            }
            for partition, trouble in self.troubles.items()
        }
