"""Faults of other brokers that let a client do, see or become what it should not (docs/bad-inputs.md)."""

import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from libs.cluster.acls import AclOperation, AclPermission, ResourceType
from libs.telemetry.level_switches import Switches
from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.messages import add_offsets_to_txn, add_partitions_to_txn, txn_offset_commit
from libs.wire.record_batches.records import Record, build_batch
from tests.gateway.answered_errors import errors_of
from tests.gateway.conftest import TOPIC
from tests.gateway.fake_groups import ask, request_body, send
from tests.gateway.granted_acls import acl, grant, revoke
from tests.gateway.kafka_client import RawClient, produce_body
from tests.gateway.whole_rig import GROUP, RELAYED, TRANSACTION, Asked, Cluster, fetch, listed, produce, started_cluster

TOPICS, GROUPS, TRANSACTIONS = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
READ, WRITE = AclOperation.READ, AclOperation.WRITE
SECRET = b"what nobody else may read"
OF_TRANSACTION = bytes(build_batch([Record(None, SECRET)], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with started_cluster(authorizer="StandardAuthorizer") as made:
        yield made


async def errors(client: RawClient, asked: Asked) -> list[int]:
    send(client, *asked)
    return await errors_of(client, *asked[:2])


def nobody_heard(cluster: Cluster) -> bool:
    """Whether no request reached a storage node or a coordinator."""
    coordinators = (*cluster.groups.coordinators.values(), cluster.transactions)
    return not any(node.appends for node in cluster.rig.nodes.values()) and not any(each.heard for each in coordinators)


@pytest.mark.parametrize("transactional_id", [None, TRANSACTION, "somebody else's"])
async def test_cve_2018_17196_a_transactional_batch_takes_the_acl_of_its_transactional_id(
    transactional_id: str | None, cluster: Cluster
) -> None:
    """Also behind a batch of no transaction, and where the request names no transactional id."""
    await grant(cluster.rig, acl(WRITE, TOPICS, TOPIC), acl(READ, TRANSACTIONS, TRANSACTION))
    client = await cluster.rig.client(1)
    partitions: list[tuple[int, bytes | None]] = [(1, bytes(build_batch([Record(None, b"plain")]))), (0, OF_TRANSACTION)]
    body = produce_body(9, [(TOPIC, partitions)], transactional_id=transactional_id)
    assert set(await errors(client, (ApiKey.PRODUCE, 9, body))) == {ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
    assert nobody_heard(cluster)


async def test_cve_2018_17196_the_acl_of_a_transactional_id_opens_no_topic(cluster: Cluster) -> None:
    await grant(cluster.rig, acl(WRITE, TRANSACTIONS, TRANSACTION), acl(READ, TOPICS, TOPIC))
    client = await cluster.rig.client(1)
    body = produce_body(9, [(TOPIC, [(0, OF_TRANSACTION)])], transactional_id=TRANSACTION)
    assert await errors(client, (ApiKey.PRODUCE, 9, body)) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert nobody_heard(cluster)


async def test_redpanda_14969_the_acl_of_a_transactional_id_opens_no_group_and_no_topic(cluster: Cluster) -> None:
    await grant(cluster.rig, acl(WRITE, TRANSACTIONS, TRANSACTION))
    client = await cluster.rig.client(1)
    topics = [add_partitions_to_txn.AddPartitionsToTxnTopic(TOPIC, [0])]
    added: Any = await ask(
        client,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        add_partitions_to_txn.AddPartitionsToTxnRequest([], TRANSACTION, 7, 0, topics),
    )
    (result,) = added.results_by_topic_v3_and_below
    codes = [partition.partition_error_code for partition in result.results_by_partition]
    assert codes == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    offsets = add_offsets_to_txn.AddOffsetsToTxnRequest(TRANSACTION, 7, 0, GROUP)
    assert (await ask(client, ApiKey.ADD_OFFSETS_TO_TXN, 3, offsets)).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    partition = txn_offset_commit.TxnOffsetCommitRequestPartition(0, 5)
    commit = txn_offset_commit.TxnOffsetCommitRequest(
        TRANSACTION, GROUP, 7, topics=[txn_offset_commit.TxnOffsetCommitRequestTopic(TOPIC, [partition])]
    )
    committed: Any = await ask(client, ApiKey.TXN_OFFSET_COMMIT, 3, commit)
    assert [each.error_code for each in committed.topics[0].partitions] == [ErrorCode.GROUP_AUTHORIZATION_FAILED]
    assert nobody_heard(cluster)


async def test_what_only_brokers_send_takes_the_permission_of_a_broker(cluster: Cluster) -> None:
    await grant(cluster.rig, acl(WRITE, TRANSACTIONS, TRANSACTION), acl(WRITE, TOPICS, TOPIC))
    client = await cluster.rig.client(1)
    several: Any = await ask(
        client, ApiKey.ADD_PARTITIONS_TO_TXN, 4, add_partitions_to_txn.AddPartitionsToTxnRequest([], TRANSACTION, 7)
    )
    assert several.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert nobody_heard(cluster)


async def test_cve_2024_27309_an_acl_that_is_removed_takes_no_other_of_its_resource_with_it(cluster: Cluster) -> None:
    denied = acl(WRITE, TOPICS, TOPIC, permission=AclPermission.DENY)
    allowed, of_another = acl(WRITE, TOPICS, TOPIC), acl(WRITE, TOPICS, TOPIC, "User:somebody")
    client = await cluster.rig.client(1)
    await grant(cluster.rig, denied, allowed, of_another)
    await revoke(cluster.rig, of_another)
    assert await errors(client, produce(9)) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED], "the denial holds"
    await revoke(cluster.rig, denied)
    assert await errors(client, produce(9)) == [], "the permission holds"
    await revoke(cluster.rig, allowed)
    assert await errors(client, produce(9)) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]


async def test_cve_2026_33558_no_log_at_any_level_has_what_clients_send(caplog: pytest.LogCaptureFixture) -> None:
    async with started_cluster() as cluster:
        with caplog.at_level(1):
            Switches.look()
            client = await cluster.rig.client(1)
            batch = bytes(build_batch([Record(b"key of " + SECRET, SECRET)]))
            relayed = [(key, 3, request_body(key, 3, RELAYED[key](1))) for key in (ApiKey.HEARTBEAT, ApiKey.END_TXN)]
            for asked in (
                produce(9, batch),
                produce(9, batch),
                produce(13, batch, acks=7),
                fetch(12, 0),
                listed(7, -1),
                *relayed,
            ):
                send(client, *asked)
                await client.answer()
            for broken in (produce(9, batch)[2][:-3], produce(9, batch)[2] + SECRET):
                other = await cluster.rig.client(1)
                send(other, ApiKey.PRODUCE, 9, broken)
                assert await other.ended()
        Switches.look()
    logged = str([record.__dict__ for record in caplog.records])
    assert any(record.levelno < logging.DEBUG for record in caplog.records), "the request log at TRACE"
    assert "malformed" in logged
    assert SECRET.decode() not in logged
    assert SECRET.hex() not in logged
