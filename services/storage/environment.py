"""The environment of a storage node: clock, files, transport, store, randomness."""

from collections.abc import Callable
from dataclasses import field

from libs.clock import Clock
from libs.cluster.store import MetadataStore
from libs.commitlog.files.filesystem import FileSystem
from libs.commitlog.files.open_files import OpenFiles
from libs.lean_dataclass import dataclass
from libs.rpc.server.denied_calls import DeniedCalls
from libs.rpc.transport.transport import Transport
from libs.runtime.children import Children
from libs.runtime.process import Identity
from libs.telemetry.metrics import Metrics
from libs.telemetry.tracing.recorder import Tracing, default_tracing
from services.storage.threads.offload import Offload


@dataclass(frozen=True, slots=True)
class Environment:
    """The environment, built in `__main__` or by a test."""

    identity: Identity
    clock: Clock
    fs: FileSystem
    store: MetadataStore
    transport: Transport
    metrics: Metrics
    offload: Callable[[str, int], Offload]
    """(name, threads) → threads for blocking work."""
    children: Callable[[str, int, int], Children]
    """(name, count, niceness) → processes for loops over records."""
    new_directory_id: Callable[[], bytes]
    die: Callable[[BaseException], None]
    """Ends the process, which can serve nobody any more."""
    open_files: OpenFiles = field(default_factory=OpenFiles)
    """The descriptors that the segments of all logs may hold together."""
    page_cache_of: Callable[[str], str] = lambda path: ""
    """The identity of the page cache behind a path. Empty: unknown, and equal to no other."""
    tracing: Tracing = field(default_factory=default_tracing)
    """Which requests have a trace, and who takes its spans."""
    denied: DeniedCalls = field(default_factory=DeniedCalls)
    """What callers of this process may not call, and called."""
