"""Transactions of a run: their coordinators and clients, and what must be true of them in the end (10 and 15)."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextvars import Context
from dataclasses import replace

from libs.cluster.records import PartitionState
from libs.cluster.topic_names import GROUP_TOPIC, TRANSACTION_TOPIC
from libs.coordinator.core.states import State
from libs.coordinator.core.tables import Journal
from services.transaction_coordinator.coordinator import machine_of
from services.transaction_coordinator.core.states import PREPARED
from services.transaction_coordinator.core.states import State as TransactionState
from services.transaction_coordinator.core.transaction import NO_EPOCH, Transaction
from services.transaction_coordinator.core.transaction_machine import TransactionMachine, TransactionSettings
from tests.simulation.cluster import kafka_client
from tests.simulation.cluster.clients import REQUEST_S, RETRY_S, Client, Values, key_of
from tests.simulation.cluster.committed_records import CommittedReader, committed_by_markers, value_of
from tests.simulation.cluster.coordinator_process import TransactionCoordinatorProcess
from tests.simulation.cluster.copiers import Copier
from tests.simulation.cluster.invariants import Invariants
from tests.simulation.cluster.kafka_client import Disconnected, Partition
from tests.simulation.cluster.kafka_transactions import TV0, TV1, TV2
from tests.simulation.cluster.processes import StorageProcess
from tests.simulation.cluster.recorder import Recorder
from tests.simulation.cluster.shard_loading import replay_log
from tests.simulation.cluster.shard_owners import ShardOwners
from tests.simulation.cluster.transaction_outcomes import Outcomes
from tests.simulation.cluster.transfers import Teller
from tests.simulation.cluster.world import World

SHARDS = 3
TRANSFERS, COPIES = "transfers", "copies"
TOPICS = {TRANSFERS: 3, COPIES: 1}
"""Partitions by name."""
TELLERS = {"1": TV2, "2": TV2, "3": TV1, "4": TV0}
COPIERS = {"1": (TV2, (0,)), "2": (TV1, (1, 2))}
"""Generations of clients, and the partitions that each copies."""
LOOK_S = 1.0
READER_PAUSE_S = 1.0
ATTEMPTS_MAX = 5
UNDER_WAY = (TransactionState.ONGOING, *PREPARED)

POINTS = (
    "a producer was replaced amid its transaction",
    "a producer that was replaced was refused",
    "a transaction was left open beyond its timeout",
    "a commit's outcome stayed unknown to its client",
    "a group's offsets were not stable",
    "a shard of transactions was taken over",
    "a shard was taken over amid a transaction",
)
"""What the runs of a set must have come by."""


class Transactions:
    def __init__(
        self,
        world: World,
        recorder: Recorder,
        values: Values,
        coordinators: Sequence[TransactionCoordinatorProcess],
        storage: Sequence[StorageProcess],
        bootstrap: Sequence[tuple[str, int]],
        hosts: Sequence[str],
        invariants: Invariants,
    ) -> None:
        self._world, self._recorder, self._storage = world, recorder, storage
        self._coordinators = coordinators
        transfers: list[Partition] = [(TRANSFERS, index) for index in range(TOPICS[TRANSFERS])]
        copies: list[Partition] = [(COPIES, index) for index in range(TOPICS[COPIES])]
        self._written = [*transfers, *copies]

        def client(kind: str, number: str) -> Client:
            host = hosts[int(number) % len(hosts)]
            return Client(world, f"{kind}-{number}", bootstrap, list(TOPICS), host=host)

        self.tellers = [
            Teller(client("teller", number), recorder, transfers, values, generation) for number, generation in TELLERS.items()
        ]
        self.copiers = [
            Copier(client("copier", number), recorder, [transfers[index] for index in indexes], copies, values, generation)
            for number, (generation, indexes) in COPIERS.items()
        ]
        self._client = client("committed-reader", "1")
        self.reader = CommittedReader(self._client, recorder, self._written)
        self.outcomes = Outcomes(world, storage, invariants, (*TOPICS, GROUP_TOPIC))
        self._owners = ShardOwners(world, TRANSACTION_TOPIC, self._moved)
        world.before_cleaning.append(lambda _host, _job: self._look_now())

    @property
    def partitions(self) -> list[Partition]:
        """All partitions that only transactions need."""
        return [*self._written, *((TRANSACTION_TOPIC, index) for index in range(SHARDS))]

    def _moved(self, shard: int, _state: PartitionState) -> None:
        self._look_now()
        sometimes = self._world.sometimes
        sometimes("a shard of transactions was taken over")
        found = self.outcomes.transactions_of(shard, SHARDS)
        sometimes("a shard was taken over amid a transaction", any(one.state in UNDER_WAY for one in found))

    def _look_now(self) -> None:
        """Looks at the logs in nobody's name: before compaction takes a decision from one of them, or amid a change of owners."""
        Context().run(self.outcomes.look)

    # --- phases

    def start(self) -> list[asyncio.Task[None]]:
        """Starts the clients that end when the faults do. Copiers go on: `copying`."""
        start = asyncio.get_running_loop().create_task
        self.copying = [start(copier.run()) for copier in self.copiers]
        return [*(start(teller.run()) for teller in self.tellers), start(self.reader.run(READER_PAUSE_S))]

    def stop(self) -> None:
        for client in (*self.tellers, self.reader):
            client.stopping = True
        for copier in self.copiers:
            copier.steady = True

    async def look(self) -> None:
        """Watches the logs until cancelled."""
        while True:
            self.outcomes.look()
            await asyncio.sleep(LOOK_S)

    async def transfer_at_last(self) -> None:
        """15: each producer commits a transaction, once all is well."""
        for teller in self.tellers:
            outcomes: list[object] = []
            while outcomes[-1:] != ["ok"] and len(outcomes) < ATTEMPTS_MAX:
                outcomes.append(await teller.transfer())
            if outcomes[-1] != "ok":
                self._world.violation(f"15: a producer cannot commit: {outcomes}")

    def uncopied(self) -> str:
        """What the copiers have not copied yet."""
        behind = [copier.behind(self._end_of) for copier in self.copiers]
        return "; ".join(what for what in behind if what)

    def _end_of(self, partition: Partition) -> int:
        """The high watermark at its leader."""
        for process in self._storage:
            for (_, index), hosted in process.what.partitions.by_key.items() if process.what is not None else ():
                if (hosted.topic, index) == partition and hosted.leading:
                    return int(hosted.high_watermark)
        return -1

    async def read_all(self) -> None:
        """Reads everything, as committed records and as they are: markers must tell the same as answers to fetches do."""
        reader = CommittedReader(self._client, self._recorder, self._written)
        reader.assign()
        copied: Counter[int] = Counter()
        transferred: set[int] = set()
        for partition in self._written:
            last = self._end_of(partition)
            committed: dict[int, int] = {}
            reader.on_read = committed.update
            while reader.positions[partition] < last:
                await reader.poll([partition])
            records = list(committed_by_markers(await self._batches(partition, last)))
            told = {record.offset: value_of(record) for record in records}
            if told != committed:
                strange = sorted(told.items() ^ committed.items())[:10]
                self._world.violation(f"10: {key_of(partition)}: markers and answers tell of different records: {strange}")
            if partition[0] == COPIES:
                copied.update(int(record.key or b"") for record in records)
            else:
                transferred.update(told.values())
        self._compare(transferred, copied)

    def _compare(self, transferred: set[int], copied: Counter[int]) -> None:
        for value, count in sorted(copied.items()):
            if count > 1 or value not in transferred:
                was = "was" if value in transferred else "was not"
                self._world.violation(f"10: there are {count} copies of {value}, which {was} transferred")
        for value in sorted(transferred - copied.keys()):
            self._world.violation(f"10: {value} was transferred, and not copied")

    async def _batches(self, partition: Partition, end: int) -> list[bytes]:
        """All batches, with isolation.level=read_uncommitted."""
        found: list[bytes] = []
        position = 0
        while position < end:
            try:
                link = await self._client.leader(partition)
                assert link is not None
                (answer,) = await kafka_client.fetch(link, {partition: position}, REQUEST_S, max_wait_ms=300, max_bytes=1 << 20)
            except Disconnected:
                await asyncio.sleep(RETRY_S)
                await self._client.refresh()
                continue
            batches = list(kafka_client.batches_of(answer))
            found += batches
            position = kafka_client.end_of(batches[-1]) if batches else position
        return found

    def not_as_in_the_log(self) -> str:
        """10: what a shard's owner serves is what its log says. What is missing for a comparison."""
        for shard, state in sorted(self._owners.states.items()):
            owners = [one for one in self._coordinators if one.what is not None and str(one.what.owner) == state.owner]
            driver = owners[0].what.shards.owned.get(shard) if owners else None
            leader = next((one for one in self._storage if one.running and one.node_id == state.leader), None)
            if driver is None or driver.state is not State.SERVING or leader is None:
                return f"shard {shard} of transactions is not served"
            partition = leader.what.partitions.by_key[self._owners.topic_id, shard]
            if driver.shard.pending.groups or not driver.shard.position == partition.high_watermark == partition.log_end_offset:
                return f"shard {shard} of transactions is written to"
            loaded = TransactionMachine(Journal(), TransactionSettings)
            replay_log(loaded, partition)
            served = _as_logged(machine_of(driver.machine))
            if served != _as_logged(loaded):
                what = f"served is {served}, and its log says {_as_logged(loaded)}"
                self._world.violation(f"10: shard {shard} of transactions: {what}")
        return ""


def _as_logged(machine: TransactionMachine) -> dict[str, Transaction]:
    """The log does not keep the epoch before the newest one."""
    return {name: replace(one, last_epoch=NO_EPOCH) for name, one in sorted(machine.transactions.items())}
