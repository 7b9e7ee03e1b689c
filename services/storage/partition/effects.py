"""The queue of partitions with effects to carry out (`services/storage/core/effects.py` declares which, and their order)."""

import asyncio
import logging

from libs.telemetry.logs import fields
from services.storage.core.effects import EffectHandlers, in_order
from services.storage.partition.partition import Partition

log = logging.getLogger("replication")


class EffectQueue:
    """Partitions note effects; the queue carries them out once a turn.

    A turn that announces itself (`begin_turn`, then `end_turn`) ends with its effects. Effects that are noted outside of one are
    carried out in the next iteration of the event loop.
    """

    __slots__ = ("_in_turn", "_loop", "_pending", "_scheduled", "_steps")

    def __init__(self, handlers: EffectHandlers[Partition]) -> None:
        self._loop = asyncio.get_running_loop()
        self._steps = in_order(handlers)
        self._pending: list[Partition] = []
        self._in_turn = False
        self._scheduled: asyncio.Handle | None = None

    def add(self, partition: Partition) -> None:
        """Queues a partition at its first effect since its effects were last carried out."""
        self._pending.append(partition)
        if not self._in_turn and self._scheduled is None:
            self._scheduled = self._loop.call_soon(self._run_scheduled)

    def begin_turn(self) -> None:
        self._in_turn = True

    def end_turn(self) -> None:
        """Carries out all noted effects, and those that follow from them."""
        if self._pending:
            self._run()
        self._in_turn = False

    def close(self) -> None:
        """Cancels what is scheduled: the node stops."""
        if self._scheduled is not None:
            self._scheduled.cancel()

    def _run_scheduled(self) -> None:
        self._scheduled = None
        self._in_turn = True
        self.end_turn()

    def _run(self) -> None:
        while self._pending:
            pending, self._pending = self._pending, []
            for partition in pending:
                effects = partition.replica.take_effects()
                for flags, carry_out in self._steps:
                    if effects & flags:
                        try:
                            carry_out(partition)
                        except Exception:
                            # Other waiters are not affected. Callers without an answer end by their deadlines.
                            log.exception("effect not carried out", extra=fields(partition=partition, effects=effects & flags))
