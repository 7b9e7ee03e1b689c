"""Entry point of a node: `python -m services.node` builds its storage node and its gateway, and runs them on one event loop."""

import sys
from functools import partial

from libs.commitlog.files.filesystem import OsFileSystem
from libs.commitlog.model.errors import DirectoryLocked
from libs.runtime.ending import run_program
from libs.runtime.identity import IncarnationDamaged
from libs.runtime.lifecycle import run
from libs.runtime.process import lock_data_directory
from services.node.config import NODE, read_node_config
from services.node.node import Identities, serve


def main() -> None:
    storage, gateway, traces = read_node_config()
    fs = OsFileSystem()
    try:
        for config in (storage, gateway):
            lock_data_directory(config, fs)
        identities = Identities.of(storage, gateway, fs)
    except DirectoryLocked:
        sys.exit(f"{NODE}: {storage.data_dir} is in use by another process")
    except IncarnationDamaged as error:
        sys.exit(f"{NODE}: {error}")
    except OSError as error:
        sys.exit(f"{NODE}: {storage.data_dir} cannot be written: {error}")
    run(partial(serve, storage, gateway, traces, identities, fs))


if __name__ == "__main__":
    run_program(main)
