"""Appends whose caller is ahead of this node: they wait a while, in order, and never past their use."""

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.records import Topic
from libs.rpc.contracts.storage import APPEND, Append, AppendPartition
from libs.wire.errors import ErrorCode
from tests.storage.cluster import WAIT_S, StorageCluster, appended, batch
from tests.support.polling import until

UNHEARD_OF = (99).to_bytes(16, "big")
AHEAD = 1 << 40  # a revision that this node's image never reaches


def early(cluster: StorageCluster, value: bytes, *, timeout_ms: int = 5000, revision: int = AHEAD):  # type: ignore[no-untyped-def]
    assert cluster.client is not None
    records = batch(value)
    request = Append(1, timeout_ms, (AppendPartition(UNHEARD_OF, 0, 0, len(records)),), None, revision)
    return cluster.client.call(APPEND, request, [records], timeout_s=WAIT_S)


async def create(cluster: StorageCluster) -> None:
    await cluster.state(UNHEARD_OF, epoch=0)
    await cluster.write(keys.topic("t"), encode(Topic("t", UNHEARD_OF.hex(), 1)))


async def test_an_append_that_is_ahead_waits_until_the_node_leads(cluster: StorageCluster) -> None:
    waiting = [early(cluster, b"%d" % number) for number in range(3)]
    await create(cluster)
    assert [appended(await append)[0].base_offset for append in waiting] == [0, 1, 2]


async def test_an_append_that_is_ahead_for_good_is_refused_at_half_of_its_timeout(cluster: StorageCluster) -> None:
    assert appended(await early(cluster, b"x", timeout_ms=100))[0].error == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_an_append_that_is_not_ahead_is_refused_at_once(cluster: StorageCluster) -> None:
    answer = appended(await early(cluster, b"x", timeout_ms=600_000, revision=0))[0]
    assert answer.error == ErrorCode.UNKNOWN_TOPIC_ID


async def test_an_append_whose_caller_hung_up_meanwhile_is_not_stored(cluster: StorageCluster) -> None:
    given_up, kept = early(cluster, b"given up"), early(cluster, b"kept")
    given_up.cancel()
    await create(cluster)
    assert appended(await kept)[0].base_offset == 0


async def test_appends_that_wait_hear_of_it_when_the_node_stops(cluster: StorageCluster) -> None:
    waiting = early(cluster, b"x", timeout_ms=600_000)
    await cluster.list_offset(UNHEARD_OF, -1)  # answered after the append has arrived
    assert cluster.node is not None
    cluster.node.opened.appends.stop()
    assert appended(await waiting)[0].error == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_an_early_append_of_one_partition_does_not_hold_up_another(cluster: StorageCluster) -> None:
    other = await cluster.topic("other")
    waiting = early(cluster, b"x")
    assert (await cluster.append(other, batch(b"y"))).error == 0
    assert not waiting.done()
    await create(cluster)
    await until(waiting.done)
