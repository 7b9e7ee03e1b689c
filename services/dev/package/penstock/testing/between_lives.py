"""What a cluster that may be started again keeps while it does not run: its ports."""

import contextlib
import os
import socket
import weakref

HOST = "127.0.0.1"
PORTS = 2
"""The bootstrap port and the broker's, which is the next one."""


class HeldPorts:
    """Ports that are bound, and where nobody listens: no other process is given them, and the next life of the cluster can bind
    them beside it. A client that connects meanwhile is refused, and cannot be given the port as its own, where it would meet
    itself. They are free once this object is gone."""

    def __init__(self, first: int) -> None:
        bound = [descriptor for port in range(first, first + PORTS) for descriptor in _bound(port)]
        self.release = weakref.finalize(self, _close, bound)


def _bound(port: int) -> list[int]:
    """None, if somebody was faster. The next start says so."""
    holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    with contextlib.suppress(OSError):
        holder.bind((HOST, port))
        return [holder.detach()]
    holder.close()
    return []


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
