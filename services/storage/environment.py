"""What a storage node takes from the world."""

from collections.abc import Callable
from dataclasses import dataclass, field

from libs.clock import Clock
from libs.cluster.store import MetadataStore
from libs.commitlog.filesystem import FileSystem
from libs.commitlog.open_files import OpenFiles
from libs.rpc.transport import Transport
from libs.runtime.children import Children
from libs.telemetry.metrics import Metrics
from services.storage.offload import Offload


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Built in `__main__`, or by a test."""

    clock: Clock
    fs: FileSystem
    store: MetadataStore
    transport: Transport
    metrics: Metrics
    offload: Callable[[str, int], Offload]
    """(name, threads) → somewhere to block."""
    children: Callable[[str, int, int], Children]
    """(name, count, niceness) → processes for what loops over records."""
    new_directory_id: Callable[[], bytes]
    host_id: str
    version: str
    die: Callable[[BaseException], None]
    """Ends the process: it can serve nobody any more."""
    open_files: OpenFiles = field(default_factory=OpenFiles)
    """How many descriptors the segments of all logs may hold together."""
    boot_id: str = ""
    """Another for each start of the kernel: the page cache lives as long. Empty: unknown, and like no other."""
