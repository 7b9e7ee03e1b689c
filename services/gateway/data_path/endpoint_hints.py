"""Endpoint hints (KIP-951): an answer to Produce tells its client that brokers have other addresses now.

Clients ask for Metadata every few minutes, or when something fails. This leaves two gaps. A client may have all its brokers at
one of two gateways; until its next Metadata it does not learn that the other gateway is back, and it has no server left when the
first one dies. A client of a gateway that stops notices only when its connection ends, and then waits before it reconnects.

From version 10 on, answers to Produce have fields for leaders and their endpoints. librdkafka takes addresses from there whatever
the error code is. Other clients ignore them without NOT_LEADER_OR_FOLLOWER.

A client that moves sends unanswered requests again, so only idempotent producers get hints. No client is moved away from a
gateway that stays, since a client that reconnects too often backs off for long. When leases expire because their store hangs,
members disappear and return one by one. So no client gets hints before the addresses have settled.
"""

from libs.cluster.records import GATEWAY, STORAGE
from libs.wire.messages.endpoints import NodeEndpoint
from services.gateway.data_path.data_path import DataPath
from services.gateway.exchange.exchange import Exchange

WITHHELD_HINTS_MAX = 50
"""Some producers always have an outstanding request. Such a producer gets the hints after so many answers without them."""
SETTLED_S = 1.0
"""Addresses must be unchanged for so long before a client gets them."""


def endpoint_hints(data_path: DataPath, exchange: Exchange, *, repeatable: bool) -> list[NodeEndpoint]:
    """The brokers' endpoints for the exchange's client. Empty if it knows them, or must not get them now.

    `repeatable`: sending the request again would do no harm.
    """
    connection, image, addresses = exchange.connection, data_path.routes.image, data_path.routes.addresses
    is_known = connection.known_addresses is addresses or addresses.same_for(
        connection.known_addresses, connection.client_host, connection.listener
    )
    if is_known or not repeatable:
        connection.known_addresses = addresses
        return []
    broker_ids = set(image.members(STORAGE))
    if data_path.config.node_id in image.members(GATEWAY):
        if data_path.now() - data_path.addresses_since < SETTLED_S:
            return []
        broker_ids.discard(connection.broker_id)
    elif not data_path.leaving:
        return []
    elif connection.withheld_hints < WITHHELD_HINTS_MAX and not connection.is_only_request(exchange):
        connection.withheld_hints += 1
        return []
    connection.known_addresses, connection.withheld_hints = addresses, 0
    return data_path.endpoints(broker_ids, connection)
