"""From a timestamp to an offset, at a storage node."""

from libs.rpc.contracts.storage import LIST_OFFSETS, ListedOffset, ListOffsets, ListOffsetsPartition, ListOffsetsReply
from libs.rpc.schema import unpack
from tests.storage.cluster import WAIT_S, StorageCluster, batch, eventually
from tests.storage.held_disk import HeldDisk

START = 1_700_000_000_000


async def test_a_slow_disk_under_a_timestamp_lookup_holds_up_nobody_else(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await cluster.topic("slow")
    await cluster.append(topic, batch(b"a", b"b", b"c", timestamp=START))
    assert cluster.client is not None
    for timestamp, offset in ((START + 1, 1), (-3, 2)):
        disk.hold_reads()
        begun = disk.reads_begun
        request = ListOffsets(
            0, (ListOffsetsPartition(topic, 0, timestamp), ListOffsetsPartition(topic, 0, -1), ListOffsetsPartition(topic, 9, 0))
        )
        slow = cluster.client.call(LIST_OFFSETS, request, timeout_s=WAIT_S)
        await eventually(lambda begun=begun: disk.reads_begun > begun)  # type: ignore[misc]
        assert (await cluster.list_offset(topic, -1)).error == 0
        assert (await cluster.append(topic, batch(b"meanwhile", timestamp=0), acks=1)).error == 0
        assert not slow.done()
        disk.release()
        found, latest, unknown = unpack(ListOffsetsReply, (await slow).body).partitions
        assert found == ListedOffset(0, offset, START + offset, 0)
        assert latest.error == 0
        assert unknown.error
