"""The environment of a storage node: clock, files, transport, store, randomness."""

import os
from collections.abc import Callable
from dataclasses import field

from libs.clock import Clock
from libs.cluster.store import MetadataStore
from libs.commitlog.files.filesystem import FileSystem
from libs.commitlog.files.open_files import OpenFiles, open_files_max
from libs.lean_dataclass import dataclass
from libs.rpc.server.denied_calls import DeniedCalls
from libs.rpc.transport.transport import Transport
from libs.runtime import process
from libs.runtime.children import ChildProcesses, Children
from libs.runtime.page_caches import page_cache_id
from libs.runtime.process import Identity
from libs.telemetry.logs import LogSettings
from libs.telemetry.metrics import Metrics
from libs.telemetry.tracing.recorder import Tracing, default_tracing
from services.storage.threads.offload import Offload
from services.storage.threads.one_thread import threads


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


def storage_environment(
    world: process.Environment,
    fs: FileSystem,
    metrics: Metrics,
    *,
    die: Callable[[BaseException], None],
    log_settings: LogSettings,
    descriptors_max: int,
) -> Environment:
    """The environment of a real process, which may have other services as well. `world`: what it has whichever these are.
    `log_settings`: of its children. `descriptors_max`: of its storage node."""
    return Environment(
        identity=world.identity,
        clock=world.clock,
        fs=fs,
        store=world.store,
        transport=world.transport,
        metrics=metrics,
        offload=threads,
        children=lambda name, count, nice: ChildProcesses(name, count, nice=nice, log_settings=log_settings),
        new_directory_id=lambda: os.urandom(16),
        die=die,
        open_files=OpenFiles(open_files_max(descriptors_max)),
        page_cache_of=page_cache_id,
        tracing=world.tracing,
        denied=world.denied,
    )
