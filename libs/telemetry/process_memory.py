"""Memory of the process, its own and what it maps of files, told apart.

`process_resident_memory_bytes` counts both. A gateway that reads a backlog maps hundreds of MB of log files: pages of the page
cache, which the kernel takes back whenever it wants.
"""

from pathlib import Path
from typing import Final

from libs.telemetry.definitions import GaugeDefinition, MetricSet, Rows

_STATUS: Final = Path("/proc/self/status")
_KINDS: Final = {"RssAnon": "own", "RssShmem": "own", "RssFile": "mapped"}


class ProcessMemory(MetricSet):
    """Reads sizes that the kernel keeps, in microseconds."""

    @GaugeDefinition(
        name="penstock_process_memory_bytes",
        help="Resident memory of the process. own: what it allocated. mapped: pages of files, which the kernel may take back.",
        labels=("kind",),
        healthy="`own` steady after the first minutes; a storage node's grows with its partitions and producers",
    )
    def sizes(self) -> Rows:
        sizes = {"own": 0, "mapped": 0}
        for line in _STATUS.read_text(encoding="ascii", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if kind := _KINDS.get(name):
                sizes[kind] += int(value.split()[0]) * 1024
        return [((kind,), size) for kind, size in sizes.items()]
