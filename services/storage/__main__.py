"""Builds a storage node from its environment and runs it: `python -m services.storage`."""

import secrets
import sys
from random import Random

from libs.clock import SystemClock
from libs.cluster.health import health_of
from libs.cluster.measured_store import MeasuredStore
from libs.cluster.records import STORAGE
from libs.commitlog.files.filesystem import OsFileSystem
from libs.commitlog.model.errors import DirectoryLocked
from libs.rpc.transport.socket_transport import SocketTransport
from libs.runtime import process
from libs.runtime.ending import run_program
from libs.runtime.etcd_store import etcd_store
from libs.runtime.identity import IncarnationDamaged, own_version
from libs.runtime.lifecycle import Lifecycle, descriptors_max, run
from libs.runtime.peer_tls import peer_tls
from libs.runtime.process import lock_data_directory, open_admin_port, own_traces, read_config, system_identity
from libs.runtime.tracing.process_tracing import ProcessTracing
from libs.telemetry.metrics import Metrics
from libs.telemetry.tracing.exporting.collector import Origin
from services.storage.config import StorageConfig
from services.storage.environment import storage_environment
from services.storage.refusals import REFUSALS, refusal
from services.storage.service import StorageNode


def main() -> None:
    config, trace_settings = read_config(StorageConfig, STORAGE)
    fs, clock = OsFileSystem(), SystemClock()
    try:
        lock_data_directory(config, fs)
        identity = system_identity(config, STORAGE, fs, clock)
    except DirectoryLocked:
        sys.exit(f"storage: {config.data_dir} is in use by another storage process")
    except IncarnationDamaged as error:
        sys.exit(f"storage: {error}")
    except OSError as error:
        sys.exit(f"storage: {config.data_dir} cannot be written: {error}")

    async def serve(lifecycle: Lifecycle) -> None:
        metrics = Metrics(STORAGE, process=True, version=own_version())
        store = MeasuredStore(etcd_store(config, lifecycle, metrics), clock.monotonic)
        lifecycle.on_stop(store.close)
        world = process.Environment(
            identity,
            clock,
            store,
            SocketTransport(silence_s=config.silence_s, peer_tls=peer_tls(config, (STORAGE,), lifecycle, metrics)),
            Random(secrets.randbits(128)),
            tracing=ProcessTracing(trace_settings, lifecycle, metrics).of(Origin(STORAGE, config.node_id, identity.version)),
        )
        environment = storage_environment(
            world, fs, metrics, die=lifecycle.stop, log_settings=config.logging, descriptors_max=descriptors_max()
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


if __name__ == "__main__":
    run_program(main)
