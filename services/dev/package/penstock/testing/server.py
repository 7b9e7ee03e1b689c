"""The program of the fork server: `python -m penstock.testing.server DESCRIPTOR`, started by `fork_server_client.py` only."""

import gc
import socket
import sys

from .. import put_packages_on_path


def main() -> None:
    put_packages_on_path()
    gc.disable()  # until everything is imported
    from services.dev.fork_server import main as serve

    with socket.socket(fileno=int(sys.argv[1])) as control:
        serve(control)


if __name__ == "__main__":
    main()
