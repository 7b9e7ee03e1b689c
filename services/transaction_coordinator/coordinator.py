"""The transaction coordinator service: the shards of `__transaction_state` that this process owns.

It decides nothing. The image says which shards it owns, `core/transaction_machine.py` decides about transactions, and the log
holds the truth. Once a decision to end a transaction is committed, `markers/marker_writer.py` writes its markers.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final

from libs.clock import Clock
from libs.cluster.health import MARKERS, TRANSACTION
from libs.cluster.image import ClusterImage
from libs.cluster.shard_owners import Owner
from libs.cluster.topic_names import TRANSACTION_TOPIC
from libs.coordinator.core.observed_machine import ObservedMachine
from libs.coordinator.core.pending import Answer
from libs.coordinator.core.states import State
from libs.coordinator.core.tables import Journal
from libs.coordinator.process.findings import LOOKED_AT_MAX, MARGIN_MS, finding
from libs.coordinator.shards.shard_set import ShardSet
from libs.rpc.contracts.controller import Finding
from libs.runtime.member_clients import MemberClients
from libs.runtime.storage_nodes import StorageNodes
from libs.telemetry.tracing.recorder import SpanRecorder
from services.transaction_coordinator.core.requests import MarkersWritten, ProducerReply, Reply, Request, WriteMarkers
from services.transaction_coordinator.core.states import PREPARED
from services.transaction_coordinator.core.transaction import Transaction
from services.transaction_coordinator.core.transaction_machine import TransactionMachine
from services.transaction_coordinator.markers.ending_traces import EndingTraces
from services.transaction_coordinator.markers.marker_writer import MarkerWriter
from services.transaction_coordinator.protocol.completions import Completions
from services.transaction_coordinator.settings import Settings
from services.transaction_coordinator.telemetry.transaction_log import TransactionLog
from services.transaction_coordinator.telemetry.transaction_meters import TransactionMeters

COMPLETION_RETRY_S: Final = 0.1


class TransactionCoordinator:
    """The service. Call `follow` with each image, and `close` at the end. It needs a running event loop. `groups`: clients of the
    group coordinators."""

    def __init__(self, owner: Owner, nodes: StorageNodes, groups: MemberClients, clock: Clock, recorder: SpanRecorder) -> None:
        self.owner = owner
        self.nodes = nodes
        self.groups = groups
        self.image = ClusterImage()
        self.meters = TransactionMeters()
        self.waits_for = "waits for the metadata store, or for a peer that has an image"
        """Why it is not ready. Empty once it is registered."""
        self.registered: Callable[[], bool] = lambda: False
        self.settings = Settings()
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self.shards: ShardSet[Request, Reply, Any] = ShardSet(
            TRANSACTION_TOPIC, owner, self._machine, nodes, clock, watch=self._watch
        )
        self.recorder = recorder
        self.traces = EndingTraces(recorder, self._loop.time)
        self.markers = MarkerWriter(nodes, groups, self._owns, self._complete, self.traces)
        self.completions = Completions()

    def follow(self, image: ClusterImage) -> None:
        self.image = image
        self.nodes.follow(image)
        self.groups.follow(image)
        self.settings.follow(image)
        self.shards.follow(image)
        self.markers.follow(image)

    def machines(self) -> Iterator[TransactionMachine]:
        """The machines of the shards that this process serves."""
        for driver in self.shards.serving.values():
            yield machine_of(driver.machine)

    def findings(self) -> Iterator[Finding]:
        """The transactions that should have ended, among the oldest: what this coordinator could not abort, and what waits for
        markers."""
        now_ms = self.shards.now_ms()
        for machine in self.machines():
            for transaction in islice(machine.under_way(), LOOKED_AT_MAX):
                if now_ms - transaction.started_ms <= MARGIN_MS:
                    break
                if transaction.state in PREPARED and now_ms - transaction.updated_ms > MARGIN_MS:
                    yield finding(MARKERS, transaction.transactional_id, transaction.updated_ms)
                elif (deadline_ms := transaction.deadline_ms) is not None and now_ms - deadline_ms > MARGIN_MS:
                    yield finding(TRANSACTION, transaction.transactional_id, transaction.started_ms)

    def ready(self) -> tuple[bool, str]:
        """Readiness for the admin port: all its shards are served."""
        return (False, self.waits_for) if self.waits_for else self.shards.readiness()

    async def close(self) -> None:
        """Closes all shards. Appends in flight are answered first."""
        self._closed = True
        self.completions.close()
        await self.shards.close()
        await self.markers.close()
        await self.groups.close()

    # -- markers ------------------------------------------------------------------------------------------------------------

    def _machine(self, index: int, journal: Journal) -> ObservedMachine[Request, Reply]:
        machine = TransactionMachine(journal, lambda: self.settings.current)
        observed: ObservedMachine[Request, Reply] = ObservedMachine(
            machine, journal, lambda events, _: self._committed(index, observed, events), TransactionLog(machine)
        )
        return observed

    def _committed(self, index: int, machine: ObservedMachine[Request, Reply], events: Sequence[object]) -> None:
        """An append may be answered when the shard has another owner epoch, here or elsewhere. That owner has found in the log
        what was prepared, and has perhaps completed it: its markers would end the producer's next transaction."""
        driver = self.shards.owned.get(index)
        if driver is not None and driver.machine is machine:
            prepared = [event.prepared for event in events if isinstance(event, WriteMarkers)]
            self.meters.prepared(prepared)
            self.markers.write(index, driver.owner_epoch, prepared)

    def _watch(self, index: int) -> Callable[[State], None]:
        def note(state: State) -> None:
            driver = self.shards.owned.get(index)
            if state is State.SERVING and driver is not None:
                self.markers.write(index, driver.owner_epoch, list(machine_of(driver.machine).prepared))

        return note

    def _owns(self, shard: int, owner_epoch: int) -> bool:
        driver = self.shards.owned.get(shard)
        return driver is not None and driver.owner_epoch == owner_epoch

    def _complete(self, shard: int, owner_epoch: int, prepared: Transaction) -> None:
        if self._closed or not self._owns(shard, owner_epoch):
            self.markers.forget(shard, owner_epoch, prepared)  # its new owner finds it prepared, and writes the markers again
            return
        trace = self.markers.trace_of(shard, prepared)
        context = self.traces.of_completion(trace) if trace is not None else None
        self.shards.submit(shard, MarkersWritten(prepared), partial(self._completed, shard, owner_epoch, prepared), context)
        # Who waits is decided on top of it, and shares its append. Nobody is answered before that is committed.
        self.completions.completed(prepared.transactional_id)
        self.shards.end_turn()

    def _completed(self, shard: int, owner_epoch: int, prepared: Transaction, answer: Answer[Reply, Any]) -> None:
        if answer.error:
            self._loop.call_later(COMPLETION_RETRY_S, self._complete, shard, owner_epoch, prepared)
            return
        trace = self.markers.trace_of(shard, prepared)
        self.markers.forget(shard, owner_epoch, prepared)
        if trace is not None:
            self.traces.completed(trace, prepared)
        if isinstance(answer.reply, ProducerReply) and not answer.reply.error_code:
            self.meters.markers_written(prepared)


def machine_of(machine: Any) -> TransactionMachine:
    """The machine that a shard's driver observes."""
    inner = machine.machine
    assert isinstance(inner, TransactionMachine)
    return inner
