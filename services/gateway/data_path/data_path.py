"""What requests without a task of their own work with: routes of the newest image, nodes, open files, batches in flight."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from libs.wire.messages.endpoints import NodeEndpoint
from services.gateway.appends import Appends
from services.gateway.config import GatewayConfig
from services.gateway.coordinators import Coordinators
from services.gateway.core.routing import Routes
from services.gateway.exchange import Asker
from services.gateway.files import Files
from services.gateway.meters import Meters
from services.gateway.nodes import Nodes
from services.gateway.outlines import Outlines
from services.gateway.unready import Unready


@dataclass(slots=True)
class DataPath:
    """Made once; `follow` replaces `routes` with each image."""

    config: GatewayConfig
    routes: Routes
    nodes: Nodes
    coordinators: Coordinators
    appends: Appends
    files: Files
    outlines: Outlines
    meters: Meters
    unready: Unready
    orders: "itertools.count[int]"
    now: Callable[[], float]
    """Loop time."""
    addresses_since: float = 0.0
    """In loop time: since when brokers are where `routes` says."""
    leaving: bool = False
    """This gateway sees its clients off."""

    def follow(self, routes: Routes) -> None:
        if routes.addresses is not self.routes.addresses:
            self.addresses_since = self.now()
        self.routes = routes

    def endpoints(self, leaders: set[int], asker: Asker) -> list[NodeEndpoint]:
        """Where this client finds these brokers: what KIP-951 hints carry beside the leader's id."""
        found = []
        for node_id in sorted(leaders):
            listener = self.routes.addresses.of(node_id, asker.client_host, asker.listener)
            if listener is not None:
                node = self.routes.image.nodes.get(node_id)
                rack = (node.rack if node is not None else "") or None
                found.append(NodeEndpoint(node_id, listener.host, listener.port_base + node_id, rack))
        return found
