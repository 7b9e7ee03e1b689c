"""Leaving in an orderly way: clients hear where else to go from this gateway itself, which serves them until they are gone.

Clients ask for Metadata again when a connection ends. One that then finds our port closed waits for a backoff, and may know of no
other gateway at all: the brokers that it knows may all be ports of this one.
"""

import asyncio
import logging

from libs.cluster.follower import ImageFollower
from libs.cluster.image import ClusterImage
from libs.cluster.records import GATEWAY
from libs.telemetry.logs import fields
from services.gateway.connections import Connections

log = logging.getLogger(__name__)

UNNAMED_S_MAX = 2.0
"""Without a metadata store nobody hears that we left."""
TOLD_S = 0.15
"""Producers at work hear of the others with their next answers (news.py) and go by themselves, which is the shortest way."""
UNUSED_S = 0.1
"""Connections on which nothing was asked for so long end first: their clients hear by the others, and lose nothing."""
HEARD_S = 0.2
"""Between the ends of two connections of one client: of two that end at once the second takes the question for Metadata along."""
SENDING_S_MAX = 1.5
"""For all of that, however many brokers there are."""
BUSY_S_MAX = 0.15
"""For so long a connection may go on before it ends between two requests; then it ends after those that were read."""
AWAY_S = 0.3
"""Nobody came back for so long: longer than clients wait before they connect again (librdkafka 150 ms at most, Java 60 ms)."""
AGAIN_S = 1.2
"""Who came back and is still there was not told; librdkafka asks again after a second."""
PATIENCE_S = 4.0


def others_serve(image: ClusterImage, gateway_id: int) -> bool:
    return any(node_id != gateway_id for node_id in image.members(GATEWAY))


async def unnamed(follower: ImageFollower, gateway_id: int, incarnation: int) -> bool:
    """Returns once Metadata does not name this gateway, or False when that takes too long."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + UNNAMED_S_MAX
    while (own := follower.image.members(GATEWAY).get(gateway_id)) is not None and own.incarnation == incarnation:
        try:
            await follower.wait_for(follower.image.revision + 1, deadline - loop.time())
        except TimeoutError:
            return False
    return True


async def see_off(connections: Connections) -> None:
    """To be called when Metadata names others, and while the ports are open. Who comes back is served like before."""
    if not len(connections):
        return
    await asyncio.sleep(TOLD_S)
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not await _all_gone(connections):
                pass
    except TimeoutError:
        log.info("clients stay, though other gateways serve", extra=fields(connections=len(connections)))


async def _all_gone(connections: Connections) -> bool:
    """False: some came back, and are still here."""
    await _send_away(connections)
    try:
        async with asyncio.timeout(AGAIN_S):
            await connections.deserted(AWAY_S)
    except TimeoutError:
        return False
    return True


async def _send_away(connections: Connections) -> None:
    """A client has one connection to each broker, as a rule: its connections end one after the other."""
    addressed = connections.addressed()
    pause_s = min(HEARD_S, SENDING_S_MAX / (2 * len(addressed) or 1))
    for unused_s in (UNUSED_S, 0.0):
        for broker_id in addressed:
            if connections.send_away(broker_id, unused_s, BUSY_S_MAX):
                await asyncio.sleep(pause_s)
