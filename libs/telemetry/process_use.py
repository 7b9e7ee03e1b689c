"""What this process uses of its host, under the names of Prometheus' client libraries, from `/proc`.

The Python library's collector lists all open descriptors, which may be many thousands, in one turn of the event loop.
"""

import os
import resource
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Final

from libs.telemetry.definitions import LOOKED_AT_ONCE, CounterDefinition, Family, GaugeDefinition, MetricSet

_PROC: Final = Path("/proc/self")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_USER, _SYSTEM, _START, _VIRTUAL, _RESIDENT = 11, 12, 19, 20, 21
"""Fields of `stat` behind the name of the program (proc_pid_stat(5)), from 0."""


class ProcessUse(MetricSet):
    """Reads numbers that the kernel keeps, in microseconds."""

    def __init__(self) -> None:
        super().__init__()
        boot = next(line for line in Path("/proc/stat").read_text(encoding="ascii").splitlines() if line.startswith("btime "))
        self._booted_s = int(boot.split()[1])
        self._stat: Sequence[str] = ()

    def families(self) -> Iterator[Family | None]:
        self._stat = (_PROC / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        yield from super().families()

    def _number(self, field: int) -> int:
        return int(self._stat[field])

    @GaugeDefinition(
        name="process_virtual_memory_bytes",
        help="Virtual memory size in bytes.",
        healthy="any",
    )
    def virtual_memory(self) -> int:
        return self._number(_VIRTUAL)

    @GaugeDefinition(
        name="process_resident_memory_bytes",
        help="Resident memory size in bytes.",
        healthy="any: it counts pages of files, which the kernel may take back",
    )
    def resident_memory(self) -> int:
        return self._number(_RESIDENT) * _PAGE

    @GaugeDefinition(
        name="process_start_time_seconds",
        help="Start time of the process since unix epoch in seconds.",
        healthy="does not change; a new value is a restart, and the old process's log tells why",
    )
    def started_s(self) -> float:
        return self._booted_s + self._number(_START) / _TICKS

    @CounterDefinition(
        name="process_cpu_seconds",
        help="Total user and system CPU time spent in seconds.",
        healthy="its rate stays below 1, which is one core",
        otherwise="Near 1, add a process of that kind.",
    )
    def cpu_s(self) -> float:
        return (self._number(_USER) + self._number(_SYSTEM)) / _TICKS

    @GaugeDefinition(
        name="process_max_fds",
        help="Maximum number of open file descriptors.",
        healthy="at least 65,536 for storage nodes with many partitions",
    )
    def descriptors_max(self) -> int:
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]

    @GaugeDefinition(
        name="process_open_fds",
        help="Number of open file descriptors.",
        healthy="below 80 % of `process_max_fds`",
        otherwise="Raise `ulimit -n`, or find what opens so many.",
    )
    def descriptors(self) -> Generator[None, None, int]:
        directory = _PROC / "fd"
        return directory.stat().st_size or (yield from entries_of(directory))  # the size is told since Linux 6.2


def entries_of(directory: Path) -> Generator[None, None, int]:
    """The number of names in a directory, which it lists with pauses."""
    count = 0
    with os.scandir(directory) as entries:
        for count, _ in enumerate(entries, start=1):
            if count % LOOKED_AT_ONCE == 0:
                yield None
    return count
