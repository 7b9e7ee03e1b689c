"""The shares of this process's descriptors, and the limits of client connections. No I/O.

A gateway that ran out of descriptors could neither reach its storage nodes again nor open a segment. So clients get what the rest
does not need, and the connection beyond that is closed.
"""

from libs.lean_dataclass import dataclass

RESERVED = 256
"""Descriptors for RPC connections, listening sockets, etcd and the admin port; of a low limit at most a quarter."""
DESCRIPTORS_PER_FILE = 4
"""The descriptors for each place in the table of segment files: the file's and its mapping's, and as many for an evicted file
that an answer still sends from."""
FILES_PART = 16
"""The table has at most one place for so many descriptors."""

MAX_CONNECTIONS = "max-connections"
MAX_CONNECTIONS_PER_IP = "max-connections-per-ip"


@dataclass(frozen=True, slots=True)
class DescriptorShares:
    connections_max: int
    open_files_max: int


def share_descriptors(descriptors_max: int, *, connections_max: int, open_files_max: int) -> DescriptorShares:
    """The numbers of connections and files that fit into `descriptors_max`, at most the given ones. 0: no limit is given."""
    files = max(1, min(open_files_max, descriptors_max // FILES_PART))
    left = max(1, descriptors_max - min(RESERVED, descriptors_max // 4) - files * DESCRIPTORS_PER_FILE)
    return DescriptorShares(min(connections_max, left) if connections_max else left, files)


class ConnectionLimits:
    """The connections that have a socket, in all and by client address. `per_ip_max` 0: no limit."""

    __slots__ = ("_connections", "by_host", "connections_max", "per_ip_max")

    def __init__(self, connections_max: int, per_ip_max: int) -> None:
        self.connections_max = connections_max
        self.per_ip_max = per_ip_max
        self._connections = 0
        self.by_host: dict[str, int] = {}

    def refusal(self, host: str) -> str | None:
        """The limit that one more connection from `host` would exceed. None: there is room."""
        if self._connections >= self.connections_max:
            return MAX_CONNECTIONS
        if self.per_ip_max and self.by_host.get(host, 0) >= self.per_ip_max:
            return MAX_CONNECTIONS_PER_IP
        return None

    def opened(self, host: str) -> None:
        self._connections += 1
        self.by_host[host] = self.by_host.get(host, 0) + 1

    def ended(self, host: str) -> None:
        self._connections -= 1
        left = self.by_host[host] - 1
        if left:
            self.by_host[host] = left
        else:
            del self.by_host[host]
