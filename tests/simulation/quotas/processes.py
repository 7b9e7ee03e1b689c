"""The processes of these runs: gateways and quota managers as their services build them, and a stand-in for a storage node."""

from functools import partial
from typing import Final

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.records import (
    STORAGE,
    ClientQuotas,
    InSync,
    Member,
    NodeRecord,
    PartitionState,
    QuotaEntity,
    Replica,
    Topic,
)
from libs.cluster.store import Delete, Put
from libs.rpc.contracts.storage import APPEND, FETCH, Append, Appended, AppendReply, Fetch, Fetched, FetchReply
from libs.rpc.messages.schema import unpack
from libs.rpc.server.rpc_server import Call, Hello, RpcServer
from libs.runtime.lifecycle import Lifecycle
from libs.wire.record_batches.batch_layout import CRC_START
from services.gateway.service import Gateway
from services.quota_manager import process as quota_manager_process
from services.quota_manager.config import QuotaManagerConfig
from services.quota_manager.quota_manager import QuotaManager
from tests.simulation.cluster.network import SimulatedTransport
from tests.simulation.cluster.processes import RPC_PORT, VERSION, GatewayProcess, Process
from tests.simulation.cluster.turn_invariants import TurnInvariants, broken_in_gateway
from tests.simulation.cluster.world import World
from tests.simulation.quotas.mute_checks import MuteChecks
from tests.simulation.quotas.promise import Admitted

TOPIC, TOPIC_ID = "load", b"load".ljust(16, b".")
STORAGE_HOST = "storage-1"
PRODUCE_BYTES, FETCH_BYTES = 43, 67
"""What a Produce and the answer to a Fetch have around the records: it counts, too."""
STORED_S = 0.004
"""The longest time that the stand-in takes for a batch."""


class QuotaManagerProcess(Process):
    role = "quota_manager"

    async def serve(self, lifecycle: Lifecycle) -> None:
        config = QuotaManagerConfig(node_id=self.node_id, etcd=(), data_dir="/data", rpc_tcp=f"{self.host}:{RPC_PORT}")

        async def built(manager: QuotaManager) -> None:
            self.what = manager

        await quota_manager_process.serve(config, self.environment(self.own_random), lifecycle, built)


LOOK_US: Final = 500
WORK_US: Final = 3 * LOOK_US
"""The work of a Metadata request: a step of the gate, and two of its handler."""


class WorkClock:
    """The time of an event loop's work: each look at it comes `LOOK_US` after the last, whatever is done between."""

    def __init__(self) -> None:
        self._looks = 0

    def __call__(self) -> float:
        self._looks += 1
        return self._looks * LOOK_US / 1e6


class LimitingGateway(GatewayProcess):
    """Its mutes are watched in each turn, beside the invariants of its connections."""

    async def serve(self, lifecycle: Lifecycle) -> None:
        await super().serve(lifecycle)
        gateway, life = self.what, self.life
        assert isinstance(gateway, Gateway)
        assert life is not None
        gateway.connections.quotas.busy_now = WorkClock()
        mutes, connections = MuteChecks(self.world, life, gateway), partial(broken_in_gateway, self.world, life)
        life.after_turn = TurnInvariants(self.world, life, lambda: mutes.broken() or connections()).check


class StorageStandIn:
    """It stores nothing but the checksums of batches, and has records without end. Each entity's client id has a partition."""

    def __init__(self, world: World, client_ids: list[str], fetch_sizes: tuple[int, int]) -> None:
        self._world, self._client_ids, self._fetch_sizes = world, client_ids, fetch_sizes
        self._random = world.stream("stand-in")
        self.produced = {client_id: Admitted() for client_id in client_ids}
        self.fetched = {client_id: Admitted() for client_id in client_ids}
        self.stored: set[bytes] = set()
        transport = SimulatedTransport(world.network, STORAGE_HOST, None)
        methods = {APPEND: self._append, FETCH: self._fetch}
        self._server = RpcServer(Hello(STORAGE, 1, 1, VERSION, 1), methods, transport=transport)

    async def start(self) -> None:
        """Writes what a controller would have written of it."""
        address = await self._server.listen(f"tcp:{STORAGE_HOST}:{RPC_PORT}")
        records: dict[str, object] = {
            keys.CLUSTER_ID: "simulated",
            keys.node(1): NodeRecord(1),
            keys.member(STORAGE, 1): Member(STORAGE, 1, 1, STORAGE_HOST, tcp_address=address),
            keys.topic(TOPIC): Topic(TOPIC, TOPIC_ID.hex(), len(self._client_ids)),
        }
        state = PartitionState((Replica(1, ""),), 1, 1, 1, 1, (InSync(1, 1),))
        for index in range(len(self._client_ids)):
            records[keys.partition(TOPIC_ID, index)] = state
        self._world.keyspace.write([Put(key, encode(record)) for key, record in records.items()])

    def _append(self, call: Call) -> None:
        request, start = unpack(Append, call.body), 0
        for part in request.partitions:
            batch = call.payload[start : start + part.length]
            start += part.length
            self.produced[self._client_ids[part.partition]].note(
                self._world.seconds, part.length + PRODUCE_BYTES, call.peer.node_id
            )
            self.stored.add(bytes(batch[CRC_START - 4 : CRC_START]))
        reply = AppendReply(tuple(Appended(0, len(self.stored), -1, 0) for _ in request.partitions))
        self._world.loop.call_later(self._random.uniform(0.0, STORED_S), call.reply, reply)

    def _fetch(self, call: Call) -> None:
        request, found, payload = unpack(Fetch, call.body), [], []
        for part in request.partitions:
            records = bytes(min(part.max_bytes, self._random.randint(*self._fetch_sizes)))
            self.fetched[self._client_ids[part.partition]].note(
                self._world.seconds, len(records) + FETCH_BYTES, call.peer.node_id
            )
            found.append(Fetched(0, 1 << 40, 1 << 40, 0, inline_length=len(records)))
            payload.append(records)
        call.reply(FetchReply(tuple(found)), payload)


def set_quota(world: World, client_id: str, name: str, rate: float | None) -> None:
    """As a controller writes it; None: removes it."""
    key = keys.client_quotas(QuotaEntity(client_id=client_id))
    world.log_event(f"{name} of {client_id} is {rate}")
    world.keyspace.write([Delete(key) if rate is None else Put(key, encode(ClientQuotas({name: rate})))])
