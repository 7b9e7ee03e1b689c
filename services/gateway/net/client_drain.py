"""The orderly drain of clients before a gateway stops. Clients learn from this gateway where else to connect, and are served
until they have left.

A client asks for Metadata again when a connection ends. If it then finds this gateway's port closed, it waits for a backoff. It
may know of no other gateway at all, since all the brokers that it knows may be ports of this one.
"""

import asyncio
import logging

from libs.cluster.image import ClusterImage
from libs.cluster.image_follower import ImageFollower
from libs.cluster.records import GATEWAY
from libs.telemetry.logs import fields
from services.gateway.net.connections import Connections

log = logging.getLogger("network")

REMOVAL_TIMEOUT_S = 2.0
"""The longest wait for the removal from the members. Without a metadata store no other process learns that this gateway left."""
HINTS_S = 0.15
"""The time for endpoint hints: active producers get the other addresses with their next answers (`endpoint_hints.py`) and move by
themselves, which is the shortest interruption."""
UNUSED_S = 0.1
"""Connections without a request for so long are closed first. Their clients learn of the other gateways without losing a request.
"""
PAUSE_S = 0.2
"""The pause between closing two connections of one client. If both ended at once, a Metadata request might be lost with the
second."""
CLOSING_S_MAX = 1.5
"""The longest time for closing all connections one by one, however many brokers there are."""
BUSY_S_MAX = 0.15
"""So long a busy connection may wait for a gap between two requests. Then it closes once the requests it has read are answered.
"""
QUIET_S = 0.3
"""Without a new connection for so long, all clients have left. It is longer than clients wait before they reconnect (librdkafka
150 ms at most, Java 60 ms)."""
RECONNECTED_S = 1.2
"""A client that is still connected after so long has not learnt of the other gateways. librdkafka asks for Metadata again after a
second."""
TIMEOUT_S = 4.0
"""The longest drain."""


def other_gateways_serve(image: ClusterImage, gateway_id: int) -> bool:
    """Whether the image has another gateway among its members."""
    return any(node_id != gateway_id for node_id in image.members(GATEWAY))


async def wait_until_removed(follower: ImageFollower, gateway_id: int, incarnation: int) -> bool:
    """Returns True once Metadata no longer names this gateway, and False if that takes too long."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + REMOVAL_TIMEOUT_S
    while (own := follower.image.members(GATEWAY).get(gateway_id)) is not None and own.incarnation == incarnation:
        try:
            await follower.wait_for(follower.image.revision + 1, deadline - loop.time())
        except TimeoutError:
            return False
    return True


async def drain_clients(connections: Connections) -> None:
    """Drains all clients. Call it while the ports are open, once Metadata names other gateways only.

    A client that connects again meanwhile is served as before.
    """
    if not len(connections):
        return
    await asyncio.sleep(HINTS_S)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            while not await _drain_once(connections):
                pass
    except TimeoutError:
        log.info(
            "clients are still connected after the drain, though other gateways serve", extra=fields(connections=len(connections))
        )


async def _drain_once(connections: Connections) -> bool:
    """Closes all connections once. False: some clients have come back, and are still connected."""
    await _close_one_by_one(connections)
    try:
        async with asyncio.timeout(RECONNECTED_S):
            await connections.wait_until_empty(QUIET_S)
    except TimeoutError:
        return False
    return True


async def _close_one_by_one(connections: Connections) -> None:
    """Closes the connections broker by broker. As a rule a client has one connection to each broker, so its connections end one
    after the other."""
    broker_ids = connections.connected_broker_ids()
    pause_s = min(PAUSE_S, CLOSING_S_MAX / (2 * len(broker_ids) or 1))
    for unused_s in (UNUSED_S, 0.0):
        for broker_id in broker_ids:
            if connections.drain_broker(broker_id, unused_s, BUSY_S_MAX):
                await asyncio.sleep(pause_s)
