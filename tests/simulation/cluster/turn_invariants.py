"""The invariants of the cores inside of a process, after every turn of its event loop. A check reads, and changes no history."""

from collections.abc import Callable

from services.gateway.net.connection import Connection
from tests.simulation.cluster.loop import Life
from tests.simulation.cluster.world import World


class TurnInvariants:
    """The check of one life. `broken` names the first invariant that does not hold, or is empty. Only the first break of a life
    counts: what follows is of no use."""

    def __init__(self, world: World, life: Life, broken: Callable[[], str]) -> None:
        self._world, self._life, self._broken = world, life, broken

    def check(self) -> None:
        if what := self._broken():
            self._life.after_turn = None
            self._world.violation(f"18: {self._life.name}: {what}")


def broken_in_gateway(world: World, life: Life) -> str:
    """Each client connection that was touched in this turn is read, waits and ends as its phase says."""
    touched, world.network.touched = world.network.touched, {}
    for stream in touched:
        connection = stream.settled_receiver
        if stream.life is life and isinstance(connection, Connection) and (what := connection.broken_invariant()):
            return f"the connection of {connection.peer}: {what}"
    return ""
