"""Who is muted at one gateway: nobody is read again while his entity owes something, and nobody stays muted without a quota.

Requests that waited for a debt begin when it is paid, in the same turn in which others are read again. So a debt counts that was
there before the turn, too.
"""

from collections import Counter
from typing import Final

from libs.cluster.client_quotas import REQUEST, Entity, rate_of
from services.gateway.net.connection import Connection
from services.gateway.service import Gateway
from tests.simulation.cluster.loop import Life
from tests.simulation.cluster.world import World

CREDIT_S: Final = 0.1
SLACK_S: Final = 0.002
"""A wait that is shorter than `throttle_time_ms` can tell is none."""


class MuteChecks:
    """Looks after each turn of a gateway's event loop, and changes nothing."""

    def __init__(self, world: World, life: Life, gateway: Gateway) -> None:
        self._world, self._life, self._gateway = world, life, gateway
        self._muted: dict[Connection, list[Entity]] = {}
        """Those that wait, and for whose debts. A mute that begins, ends or gets another debt touches its stream."""
        self._owing: Counter[Entity] = Counter()
        """How many of them wait for an entity's debt."""
        self._owed_before: dict[Entity, float] = {}
        self._generation = -1

    def broken(self) -> str:
        connections = self._gateway.connections
        same, self._generation = connections.quotas.generation == self._generation, connections.quotas.generation
        if not same:
            for connection in connections:
                entities = connection.muted_for
                if entities and all(rate_of(self._gateway.image, entity) is None for entity in entities):
                    return f"the connection of {connection.peer} stays muted, and its limit was removed"
        for stream in self._world.network.touched:
            connection = stream.settled_receiver
            if stream.life is not self._life or not isinstance(connection, Connection):
                continue
            was_muted = connection in self._muted
            self._note(connection)
            if not was_muted or connection.is_muted or not same or stream.closing:
                continue
            if (owed_s := self._owed_s(connection)) > CREDIT_S + SLACK_S:
                return f"the connection of {connection.peer} is read again, and its entity owes {owed_s:.3f} s"
        self._owed_before = {entity: connections.quotas.slices.owed_s(entity) for entity in self._owing}
        return ""

    def _note(self, connection: Connection) -> None:
        for entity in self._muted.pop(connection, ()):
            self._owing[entity] -= 1
            if not self._owing[entity]:
                del self._owing[entity]
        if connection.is_muted:
            self._muted[connection] = connection.muted_for
            self._owing.update(connection.muted_for)

    def _owed_s(self, connection: Connection) -> float:
        """In seconds of the rate, now and before this turn, of the entity that owes most. A mute for work ends after a second,
        whatever is owed."""
        slices, before = self._gateway.connections.quotas.slices, self._owed_before
        limits = connection.kept_limits.limits[:REQUEST]
        entities = [limit.entity for limit in limits if limit is not None]
        return max((min(slices.owed_s(entity), before.get(entity, 0.0)) for entity in entities), default=0.0)
