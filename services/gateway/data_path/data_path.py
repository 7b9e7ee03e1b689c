"""The objects that requests without a task of their own share: routes, RPC clients, open files, appends in flight."""

import itertools
from collections.abc import Callable
from typing import Any

from libs.lean_dataclass import dataclass
from libs.wire.apis import TRANSACTION_APIS
from libs.wire.messages.endpoints import NodeEndpoint
from services.gateway.appends.leader_appends import LeaderAppends
from services.gateway.authorization.authorization import Authorization
from services.gateway.config import GatewayConfig
from services.gateway.core.answer_budget import AnswerBudget
from services.gateway.core.routing import Routes
from services.gateway.exchange.exchange import ClientConnection
from services.gateway.exchange.request_traces import RequestTraces
from services.gateway.gateway_meters import GatewayMeters
from services.gateway.peers.coordinators import Coordinators
from services.gateway.peers.delayed_requests import DelayedRequests
from services.gateway.peers.file_descriptors import Files
from services.gateway.peers.log_layouts import LogLayouts
from services.gateway.peers.storage_nodes import Nodes


@dataclass(slots=True)
class DataPath:
    """The shared objects, made once. `follow` replaces `routes` with each image."""

    config: GatewayConfig
    routes: Routes
    nodes: Nodes
    coordinators: Coordinators
    """Those of groups."""
    transaction_coordinators: Coordinators
    appends: LeaderAppends
    files: Files
    log_layouts: LogLayouts
    meters: GatewayMeters
    answers: AnswerBudget[Any]
    """The budget of answers that clients do not read, by connection."""
    delayed_requests: DelayedRequests
    orders: "itertools.count[int]"
    """Numbers that rise over all batches of this process."""
    now: Callable[[], float]
    """The loop's clock."""
    traces: RequestTraces
    authorization: Authorization | None = None
    """None: there is no authorizer."""
    addresses_since: float = 0.0
    """The loop time at which the addresses in `routes` last changed."""
    leaving: bool = False
    """True while this gateway drains its clients and stops."""

    @property
    def sendfile_bytes_min(self) -> int:
        """Records of at least so many bytes leave by sendfile. 0, so that none takes memory, while unread answers take much."""
        return 0 if self.answers.is_crowded else self.config.sendfile_bytes_min

    def coordinators_for(self, api_key: int) -> Coordinators:
        """The coordinators that decide requests of this API."""
        return self.transaction_coordinators if api_key in TRANSACTION_APIS else self.coordinators

    def follow(self, routes: Routes) -> None:
        if routes.addresses is not self.routes.addresses:
            self.addresses_since = self.now()
        self.routes = routes

    def endpoints(self, leaders: set[int], connection: ClientConnection) -> list[NodeEndpoint]:
        """The endpoints of these brokers for this client, as KIP-951 has them beside the leader's id."""
        endpoints = []
        for node_id in sorted(leaders):
            listener = self.routes.addresses.of(node_id, connection.client_host, connection.listener)
            if listener is not None:
                node = self.routes.image.nodes.get(node_id)
                rack = (node.rack if node is not None else "") or None
                endpoints.append(NodeEndpoint(node_id, listener.host, listener.port_base + node_id, rack))
        return endpoints
