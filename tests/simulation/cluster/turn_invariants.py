"""The invariants of the cores inside of a process, after every turn of its event loop. A check reads, and changes no history."""

from collections.abc import Callable

from services.gateway.net.connection import Connection
from services.storage.service import StorageNode
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
    touched = world.network.touched
    if not touched:
        return ""
    world.network.touched = {}
    for stream in touched:
        connection = stream.settled_receiver
        if stream.life is life and isinstance(connection, Connection) and (what := connection.broken_invariant()):
            return f"the connection of {connection.peer}: {what}"
    return ""


def broken_in_storage(node: StorageNode) -> str:
    """What is in a log and not on the disk is owed a sync, and the states and timers of each directory's rounds agree."""
    if not node.is_open:
        return ""
    for disk in node.opened.disks.all:
        if what := disk.sync.broken_invariant():
            return f"{disk.path}: {what}"
    # After each of a run's 300,000 turns: one expression over all partitions is what costs least. Whatever lies in memory for
    # long is in one of the first three of the states that owe a sync.
    for partition in [
        each
        for each in node.partitions.by_key.values()
        if (log := each.log).durable_offset < log.log_end_offset
        and each not in (owed := each.sync.states).unhurried
        and each not in owed.dirty
        and each not in owed.in_round
    ]:
        sync = partition.sync
        if not partition.offline and not sync.failed and not sync.states.owes_sync(partition):
            log = partition.log
            return f"{partition} is durable up to {log.durable_offset}, ends at {log.log_end_offset}, and owes no sync"
    return ""
