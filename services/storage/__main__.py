"""Builds a storage node from its environment and runs it: `python -m services.storage`."""

import os
import sys

from libs.clock import SystemClock
from libs.cluster.etcd_store import EtcdStore
from libs.commitlog.durable_files import make_directory
from libs.commitlog.errors import DirectoryLocked, DirectoryOfAnother
from libs.commitlog.filesystem import OsFileSystem
from libs.commitlog.open_files import OpenFiles, open_files_max
from libs.rpc.socket_transport import SocketTransport
from libs.runtime.admin import AdminServer
from libs.runtime.children import ChildProcesses
from libs.runtime.config import load_or_exit
from libs.runtime.identity import boot_id, host_id, next_incarnation, own_version
from libs.runtime.lifecycle import CannotRun, Lifecycle, descriptors_max, run
from libs.telemetry import logs
from libs.telemetry.metrics import Metrics
from services.storage.config import StorageConfig
from services.storage.one_thread import threads
from services.storage.service import StorageNode
from services.storage.surroundings import Surroundings


def main() -> None:
    config = load_or_exit(StorageConfig, "storage")
    logs.configure("storage", f"storage-{config.node_id}", config.log_level)
    fs, clock = OsFileSystem(), SystemClock()
    try:
        make_directory(fs, config.data_dir)
        # Held until the process ends: before anything else is touched, so that a second process changes nothing.
        lock = fs.lock(f"{config.data_dir}/.lock")
        incarnation = next_incarnation(fs, config.data_dir, clock.wall_ms())
    except DirectoryLocked:
        sys.exit(f"storage: {config.data_dir} is in use by another storage process")
    except OSError as error:
        sys.exit(f"storage: {config.data_dir} cannot be written: {error}")

    async def serve(lifecycle: Lifecycle) -> None:
        metrics = Metrics("storage", process=True)
        store = EtcdStore(config.etcd)
        lifecycle.on_stop(store.close)
        world = Surroundings(
            clock=clock,
            fs=fs,
            store=store,
            transport=SocketTransport(),
            metrics=metrics,
            offload=threads,
            children=lambda name, count, nice: ChildProcesses(name, count, nice=nice),
            new_directory_id=lambda: os.urandom(16),
            host_id=config.host_id or host_id(),
            version=own_version(),
            die=lifecycle.stop,
            open_files=OpenFiles(open_files_max(descriptors_max())),
            boot_id=boot_id(),
        )
        node = StorageNode(config, incarnation, world)
        admin = AdminServer(config.admin_host, config.admin_port, ready=node.ready, metrics=metrics, debug=node.debug())
        lifecycle.on_stop(admin.close)
        await admin.start()
        lifecycle.on_stop(node.stop)
        try:
            await node.start()
        except DirectoryOfAnother as error:
            setting = "PENSTOCK_LOG_DIRS" if config.log_dirs else "PENSTOCK_DATA_DIR"
            raise CannotRun(
                f"log directory belongs to another {error.owner}",
                path=error.path,
                theirs=error.theirs,
                ours=error.ours,
                way_out=f"it is sound: empty it if nobody misses what it holds, or choose another one by {setting}",
            ) from error

    run(serve)
    fs.close(lock)


if __name__ == "__main__":
    main()
