"""Builds a storage node from its environment and runs it: `python -m services.storage`."""

import os
import sys

from libs.clock import SystemClock
from libs.cluster.etcd.etcd_store import EtcdStore
from libs.cluster.health import health_of
from libs.cluster.measured_store import MeasuredStore
from libs.cluster.records import STORAGE
from libs.commitlog.files.filesystem import OsFileSystem
from libs.commitlog.files.open_files import OpenFiles, open_files_max
from libs.commitlog.model.errors import DirectoryDamaged, DirectoryLocked, DirectoryOwnerMismatch, DirectoryRetired
from libs.rpc.transport.socket_transport import SocketTransport
from libs.runtime.children import ChildProcesses
from libs.runtime.identity import IncarnationDamaged, own_version
from libs.runtime.lifecycle import CannotRun, Lifecycle, descriptors_max, run
from libs.runtime.page_caches import page_cache_id
from libs.runtime.peer_tls import peer_tls
from libs.runtime.process import lock_data_directory, open_admin_port, own_traces, read_config, system_identity
from libs.runtime.tracing.process_tracing import ProcessTracing
from libs.telemetry.metrics import Metrics
from libs.telemetry.tracing.exporting.collector import Origin
from services.storage.config import StorageConfig
from services.storage.environment import Environment
from services.storage.registration import NodeIdTaken
from services.storage.service import StorageNode
from services.storage.threads.one_thread import threads

REFUSALS = (DirectoryOwnerMismatch, DirectoryLocked, DirectoryRetired, DirectoryDamaged, NodeIdTaken)
OTHER_CLUSTER = (
    "keep it, its records may be the only ones. If etcd's data was lost: make down, make rebuild, make up. "
    "If it is no cluster of yours: choose another directory by PENSTOCK_LOG_DIRS"
)
OTHER_NODE = "keep it for that node, and give this one a directory of its own by PENSTOCK_LOG_DIRS"


def main() -> None:
    config, trace_settings = read_config(StorageConfig, STORAGE)
    fs, clock = OsFileSystem(), SystemClock()
    try:
        lock = lock_data_directory(config, fs)
        identity = system_identity(config, STORAGE, fs, clock)
    except DirectoryLocked:
        sys.exit(f"storage: {config.data_dir} is in use by another storage process")
    except IncarnationDamaged as error:
        sys.exit(f"storage: {error}")
    except OSError as error:
        sys.exit(f"storage: {config.data_dir} cannot be written: {error}")

    async def serve(lifecycle: Lifecycle) -> None:
        metrics = Metrics(STORAGE, process=True, version=own_version())
        store = MeasuredStore(EtcdStore(config.etcd), clock.monotonic)
        lifecycle.on_stop(store.close)
        environment = Environment(
            identity=identity,
            clock=clock,
            fs=fs,
            store=store,
            transport=SocketTransport(silence_s=config.silence_s, peer_tls=peer_tls(config, STORAGE, lifecycle)),
            metrics=metrics,
            offload=threads,
            children=lambda name, count, nice: ChildProcesses(name, count, nice=nice, log_settings=config.logging),
            new_directory_id=lambda: os.urandom(16),
            die=lifecycle.stop,
            open_files=OpenFiles(open_files_max(descriptors_max())),
            page_cache_of=page_cache_id,
            tracing=ProcessTracing(trace_settings, lifecycle, metrics).of(Origin(STORAGE, config.node_id, identity.version)),
        )
        metrics.registry.register(environment.denied)
        node = StorageNode(config, environment)
        await open_admin_port(
            config,
            lifecycle,
            metrics,
            ready=node.ready,
            in_sync=node.in_sync,
            health=lambda: health_of(node.partitions.image, current=node.registration.registered),
            debug=node.debug(),
            store=store,
            traces=own_traces(environment),
            lookups={"partitions": node.partitions.look_up},
        )
        lifecycle.on_stop(node.stop)
        try:
            await node.start()
        except REFUSALS as error:
            raise refusal(error) from error

    run(serve)
    fs.close(lock)


def refusal(error: Exception) -> CannotRun:
    """The one line that tells an operator what is wrong, and what to do."""
    if not isinstance(error, DirectoryOwnerMismatch):
        return CannotRun("storage node cannot start", reason=error)
    return CannotRun(
        f"log directory belongs to another {error.owner}",
        path=error.path,
        theirs=error.theirs,
        ours=error.ours,
        way_out=OTHER_CLUSTER if error.owner == "cluster" else OTHER_NODE,
    )


if __name__ == "__main__":
    main()
