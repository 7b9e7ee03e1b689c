"""A rig whose cluster has coordinators of groups and of transactions, and requests that have shortcuts."""

import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from libs.cluster import keys
from libs.cluster.records import TRANSACTION_COORDINATOR, InSync, Member, PartitionState, Replica, Topic
from libs.cluster.shard_owners import Owner
from libs.telemetry.tracing.sampling import TraceRules
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.errors import ErrorCode
from libs.wire.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    consumer_group_heartbeat,
    end_txn,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    list_offsets,
    offset_commit,
    offset_fetch,
    sync_group,
    txn_offset_commit,
)
from services.gateway.core.coordinator_shards import TRANSACTIONS
from tests.gateway.backlogs import BATCH, fill
from tests.gateway.conftest import HOST_ID, TOPIC, TOPIC_ID, Rig
from tests.gateway.fake_coordinator import FakeCoordinator
from tests.gateway.fake_groups import Groups, request_body
from tests.gateway.kafka_client import Topic as TopicKey
from tests.gateway.kafka_client import fetch_body, produce_body
from tests.gateway.produce_requests import BATCH as SENT
from tests.support.polling import until
from tests.support.ports import Reservation, reserve_ports

TRANSACTIONS_ID = bytes(range(32, 48))
GROUP, TRANSACTION = "some group", "some transaction"

Asked = tuple[ApiKey, int, bytes]
"""An API, a version, and the body of a request."""


class Cluster:
    """A rig with coordinators of groups and of transactions."""

    def __init__(self, ports: Reservation, directory: Path) -> None:
        self.rig = Rig(ports, directory)
        self.groups = Groups(self.rig)
        self.transactions = FakeCoordinator(1, directory, TRANSACTIONS)

    async def start(self, *, shortcuts: bool, **changes: object) -> None:
        await self.groups.start(shortcuts=shortcuts, **changes)
        await self.transactions.start()
        member = Member(TRANSACTION_COORDINATOR, 1, 1, HOST_ID, unix_address=self.transactions.address)
        rig, gateway = self.rig, self.rig.gateway
        assert gateway is not None
        await rig.put(keys.member(TRANSACTION_COORDINATOR, 1), member)
        await rig.put(keys.topic(TRANSACTIONS.topic), Topic(TRANSACTIONS.topic, TRANSACTIONS_ID.hex(), 1, internal=True))
        state = PartitionState((Replica(1, ""),), 1, 1, 0, 0, (InSync(1, 1),), owner=str(Owner(1, 1)))
        await rig.put(keys.partition(TRANSACTIONS_ID, 0), state)
        await self.groups.settled()
        coordinators, nodes = gateway.data_path.transaction_coordinators, gateway.data_path.nodes
        await until(lambda: (owner := coordinators.owner(0)) is not None and owner.client.connected)
        await until(lambda: nodes.ready(1) is not None and nodes.ready(2) is not None)
        fill(rig, 40)

    async def stop(self) -> None:
        await self.rig.stop()
        await self.groups.stop()
        await self.transactions.stop()

    def refuse_lookups(self, error: ErrorCode) -> None:
        """From now on. After an error of the leader, the shortcut leaves the request to the handler, which asks again."""
        self.rig.nodes[1].lookup_errors += [error] * 100

    def refuse_in_coordinators(self, error: ErrorCode) -> None:
        self.transactions.error = error
        for coordinator in self.groups.coordinators.values():
            coordinator.error = error


@asynccontextmanager
async def started_cluster(trace_rules: TraceRules | None = None, **changes: object) -> AsyncIterator[Cluster]:
    """One with shortcuts."""
    directory, ports = Path(tempfile.mkdtemp(prefix="pst")), reserve_ports(10)
    made = Cluster(ports, directory)
    made.rig.trace_rules = trace_rules or made.rig.trace_rules
    try:
        await made.start(shortcuts=True, **changes)
        yield made
    finally:
        await made.stop()
        ports.release()
        shutil.rmtree(directory)


def versions(key: ApiKey) -> range:
    return range(APIS[key].min_version, APIS[key].max_version + 1)


def topic_in(key: ApiKey, version: int) -> TopicKey:
    return TOPIC_ID if version >= 13 and key in (ApiKey.PRODUCE, ApiKey.FETCH) else TOPIC


def produce(version: int, batch: bytes = SENT, *, partition: int = 0, topic: TopicKey = "", acks: int = -1) -> Asked:
    topic = topic or topic_in(ApiKey.PRODUCE, version)
    return ApiKey.PRODUCE, version, produce_body(version, [(topic, [(partition, batch)])], acks=acks)


def fetch(version: int, offset: int, *, isolation: int = 0, partition: int = 0, limit: int = 2 * BATCH, epoch: int = -1) -> Asked:
    topics = [(topic_in(ApiKey.FETCH, version), [(partition, offset)])]
    body = fetch_body(
        version,
        topics,
        max_wait_ms=1,
        max_bytes=limit,
        partition_max_bytes=limit,
        isolation=isolation,
        leader_epoch=epoch,
    )
    return ApiKey.FETCH, version, body


def listed(version: int, timestamp: int, *, topic: str = TOPIC, partition: int = 0, isolation: int = 0) -> Asked:
    wanted = list_offsets.ListOffsetsTopic(topic, [list_offsets.ListOffsetsPartition(partition, -1, timestamp)])
    request = list_offsets.ListOffsetsRequest(-1, isolation, [wanted], timeout_ms=1000)
    return ApiKey.LIST_OFFSETS, version, request_body(ApiKey.LIST_OFFSETS, version, request)


RELAYED: dict[ApiKey, Callable[[int], object]] = {
    ApiKey.OFFSET_COMMIT: lambda number: offset_commit.OffsetCommitRequest(GROUP, number, "m"),
    ApiKey.OFFSET_FETCH: lambda _: offset_fetch.OffsetFetchRequest(group_id=GROUP),
    ApiKey.HEARTBEAT: lambda number: heartbeat.HeartbeatRequest(GROUP, number, "m"),
    ApiKey.JOIN_GROUP: lambda number: join_group.JoinGroupRequest(GROUP, 1000 + number, protocol_type="consumer"),
    ApiKey.SYNC_GROUP: lambda number: sync_group.SyncGroupRequest(GROUP, number, "m"),
    ApiKey.LEAVE_GROUP: lambda number: leave_group.LeaveGroupRequest(GROUP, member_id=f"m{number}"),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: lambda n: consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(GROUP, "m", n),
    ApiKey.TXN_OFFSET_COMMIT: lambda number: txn_offset_commit.TxnOffsetCommitRequest(TRANSACTION, GROUP, number),
    ApiKey.INIT_PRODUCER_ID: lambda number: init_producer_id.InitProducerIdRequest(TRANSACTION, 1000 + number),
    ApiKey.ADD_PARTITIONS_TO_TXN: lambda number: add_partitions_to_txn.AddPartitionsToTxnRequest([], TRANSACTION, number),
    ApiKey.ADD_OFFSETS_TO_TXN: lambda number: add_offsets_to_txn.AddOffsetsToTxnRequest(TRANSACTION, number, 0, GROUP),
    ApiKey.END_TXN: lambda number: end_txn.EndTxnRequest(TRANSACTION, number, 0, bool(number % 2)),
}
NAMED_IN_A_LIST = {ApiKey.OFFSET_FETCH: 8, ApiKey.ADD_PARTITIONS_TO_TXN: 4}
"""From that version on, a request names several, and has no shortcut."""
