"""Recovery of long logs after a crash, in child processes, one a core. The node's log shows their progress."""

import asyncio
import errno
import logging
from collections.abc import Callable

from libs.commitlog.partition_log.recovery_job import OpenLogRequest, Recovered, recover
from libs.lean_dataclass import dataclass
from libs.runtime.children import ChildDied, Children, ChildStalled
from libs.telemetry.logs import fields
from services.storage.threads.quiet_times import quiet_s

log = logging.getLogger("log")

PROGRESS_S = 2.0
MIB = 1 << 20


@dataclass(slots=True, eq=False)
class _Job:
    name: str
    total_bytes: int
    read_bytes: int = 0
    begun: bool = False


class Recovery:
    """The recoveries. The children start with the first log that needs one, and end with the last."""

    def __init__(self, start_children: Callable[[], Children]) -> None:
        self._start_children = start_children
        self._children: Children | None = None
        self._jobs: set[_Job] = set()
        self._progress_task: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._started_at = 0.0
        self._ended_logs = self._ended_bytes = 0

    @property
    def left_bytes(self) -> int:
        """What is still to be read of the logs that are being recovered."""
        return sum(job.total_bytes - min(job.read_bytes, job.total_bytes) for job in self._jobs)

    async def run(self, request: OpenLogRequest, total_bytes: int) -> Recovered | None:
        """Recovers a log in a child. None: the child died, and the log is as before.

        Raises LogDamaged, SyncFailed, OSError (ETIMEDOUT if the child hung).
        """
        job = _Job(f"{request.topic}-{request.partition}", total_bytes)
        children = self._begin(job)
        recovered: Recovered | None = None

        def progress(read_bytes: object) -> None:
            assert isinstance(read_bytes, int)
            job.begun = True
            job.read_bytes += read_bytes

        try:
            recovered = await children.run(recover, request, progress, quiet_s=quiet_s(total_bytes))
        except ChildStalled as stall:  # it would hang here too, and a thread cannot be killed
            log.error("recovery process hangs, it was killed and is tried again", extra=fields(partition=job.name, reason=stall))
            raise OSError(errno.ETIMEDOUT, str(stall), request.path) from stall
        except ChildDied as death:
            log.error("recovery process died, recovering in this one", extra=fields(partition=job.name, reason=death))
        finally:
            self._end(job, recovered)
        return recovered

    def _begin(self, job: _Job) -> Children:
        if self._children is None:
            self._children = self._start_children()
            self._started_at = self._loop.time()
            self._ended_logs = self._ended_bytes = 0
            self._progress_task = self._loop.create_task(self._log_progress(), name="recovery progress")
        self._jobs.add(job)
        return self._children

    def _end(self, job: _Job, recovered: Recovered | None) -> None:
        self._jobs.discard(job)
        if recovered is not None:
            self._ended_logs += 1
            self._ended_bytes += recovered.read_bytes
        if not self._jobs and self._children is not None and self._progress_task is not None:
            self._children.close()
            self._progress_task.cancel()
            self._children = None
            seconds = self._loop.time() - self._started_at
            numbers = {"logs": self._ended_logs, "read_mib": self._ended_bytes // MIB, "seconds": round(seconds, 2)}
            log.info("recovery processes are done", extra=fields(**numbers))

    async def _log_progress(self) -> None:
        while True:
            await asyncio.sleep(PROGRESS_S)
            for job in self._jobs:
                if job.begun:
                    numbers = {"read_mib": job.read_bytes // MIB, "of_mib": job.total_bytes // MIB}
                    log.info("recovering", extra=fields(partition=job.name, **numbers))
            log.info("recovery", extra=fields(done=self._ended_logs, left=len(self._jobs), left_mib=self.left_bytes // MIB))
