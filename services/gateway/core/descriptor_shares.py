"""The shares of this process's descriptors: client connections, segment files and the rest. No I/O.

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


@dataclass(frozen=True, slots=True)
class DescriptorShares:
    connections: int
    open_files_max: int


def share_descriptors(descriptors_max: int, *, open_files_max: int) -> DescriptorShares:
    """The numbers of connections and files that fit into `descriptors_max`, of files at most `open_files_max`."""
    files = max(1, min(open_files_max, descriptors_max // FILES_PART))
    left = max(1, descriptors_max - min(RESERVED, descriptors_max // 4) - files * DESCRIPTORS_PER_FILE)
    return DescriptorShares(left, files)
