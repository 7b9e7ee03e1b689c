"""Which seeds run on nodes, where a gateway is in the process of a storage node and calls go by links: a fixed half.

The other half has a process for each service, and calls go by sockets. All promises are the same.
"""


def has_nodes(seed: int) -> bool:
    """The second bit decides, so that either half has runs with the gateways' shortcuts and without (`shortcut_halves`)."""
    return seed % 4 >= 2
