"""Tells a producer that brokers have other addresses now, with the answer to what it sent.

Clients ask for Metadata every few minutes, or when something fails. Until then one whose brokers are all at one of two gateways
does not hear that the other one is there again, and loses everybody whom it could ask when that one dies; and one at a gateway
that leaves hears of it by the end of its connection, and waits before it connects again. From version 10 on, answers to Produce
have a place for leaders and their endpoints (KIP-951): librdkafka takes addresses from there whatever the answer says, others
pass over them unless it says NOT_LEADER_OR_FOLLOWER.

A client that moves sends again what was not answered, so only a producer that stores nothing twice by that is told. Nobody is
told to move from a gateway that stays: a client that connects again soon after the last time waits for long. When leases ran out
while their store hung, members are gone for a moment and come back one by one: nobody is told before they have settled.
"""

from libs.cluster.records import GATEWAY, STORAGE
from libs.wire.messages.endpoints import NodeEndpoint
from services.gateway.data_path import DataPath
from services.gateway.exchange import Exchange

WITHHELD_MAX = 50
"""Answers that a producer gets, who is never without an outstanding request, before it is told to move all the same."""
SETTLED_S = 1.0
"""So long addresses have to stay before a client is told of them."""


def tell(data_path: DataPath, exchange: Exchange, *, repeatable: bool) -> list[NodeEndpoint]:
    """Where its client finds the brokers; nothing if it knows. `repeatable`: to send it again would do no harm."""
    asker, image, addresses = exchange.connection, data_path.routes.image, data_path.routes.addresses
    known = asker.told is addresses or addresses.same_for(asker.told, asker.client_host, asker.listener)
    if known or not repeatable:
        asker.told = addresses
        return []
    others = set(image.members(STORAGE))
    if data_path.config.node_id in image.members(GATEWAY):
        if data_path.now() - data_path.addresses_since < SETTLED_S:
            return []
        others.discard(asker.broker_id)
    elif not data_path.leaving:
        return []
    elif asker.withheld < WITHHELD_MAX and not asker.is_alone(exchange):
        asker.withheld += 1
        return []
    asker.told, asker.withheld = addresses, 0
    return data_path.endpoints(others, asker)
