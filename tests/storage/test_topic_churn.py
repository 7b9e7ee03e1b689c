"""Topics deleted and made again under the same name, faster than the disk follows."""

import asyncio
import gc
import os
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.records import GROUP_COORDINATOR, Topic
from libs.rpc.contracts.ownership import CLAIM, Claim, Claimed
from libs.rpc.messages.schema import unpack
from libs.wire.errors import ErrorCode
from services.storage.replication.leader.isr_changes import IsrChanges
from tests.storage.cluster import CALLER, WAIT_S, StorageCluster, appended, batch, directory, partition_of
from tests.storage.held_disk import HeldDisk
from tests.support.open_files import open_files
from tests.support.polling import until

NAME = "churned"


async def test_a_topic_deleted_while_it_is_opened_makes_way_for_its_successor(cluster: StorageCluster) -> None:
    other = await cluster.topic("other")
    for number in range(40):
        topic_id = (1000 + number).to_bytes(16, "big")
        await cluster.state(topic_id, epoch=0)
        await cluster.write(keys.topic(NAME), encode(Topic(NAME, topic_id.hex(), 1)))
        await cluster.append(other, batch(b"keeps sync rounds going"))
        await cluster.write(keys.topic(NAME), None)
    last = await cluster.topic(NAME)
    assert (await cluster.append(last, batch(b"x"))).base_offset == 0
    # The directory works on: a sync round that stumbled over a renamed partition would have retired it.
    assert (await cluster.append(other, batch(b"x"))).base_offset == 40


async def test_a_partition_on_its_way_out_is_owed_no_sync_round(cluster: StorageCluster, disk: HeldDisk) -> None:
    """Its successor's configs bear its name. A round would look for a directory that is being renamed, and retire the disk."""
    topic = await cluster.topic("twice", durability="replicated")
    other = await cluster.topic("other")
    await cluster.append(topic, batch(b"x"), acks=1)
    assert cluster.node is not None
    node = cluster.node
    leaving = node.partitions.by_key[topic, 0]
    await until(lambda: not leaving.sync.running)
    disk.hold()
    begun = disk.syncs_begun
    waiting = cluster.send([(other, 0, batch(b"y"))])
    await until(lambda: disk.syncs_begun > begun)
    await cluster.write(keys.topic("twice"), None)
    await until(lambda: (topic, 0) not in node.partitions.by_key)
    await cluster.write(keys.config("topic", "twice"), None)
    await asyncio.sleep(0.05)
    owed = leaving in leaving.sync.states.requested
    disk.release()
    assert not owed
    assert appended(await waiting)[0].error == 0


async def test_the_files_of_a_deleted_topic_are_closed_at_once(cluster: StorageCluster, tmp_path: Path) -> None:
    """An open file keeps its space. So nothing of a deleted partition may wait for the cycle collector, which comes rarely."""
    await cluster.topic("keeps the node awake")
    gc.collect()
    gc.disable()
    try:
        topic = await cluster.topic("goes", durability="replicated")
        assert (await cluster.append(topic, batch(b"x"))).error == 0
        await until(lambda: _open_below(tmp_path, "goes-0"))
        await cluster.write(keys.topic("goes"), None)
        await until(lambda: not _open_below(tmp_path, "goes-0"))
    finally:
        gc.enable()


async def test_the_files_of_a_deleted_topic_that_were_read_from_the_disk_are_closed_at_once(
    cluster: StorageCluster, disk: HeldDisk, tmp_path: Path
) -> None:
    """What the page cache lacked may not hold the log. It did: the errors of lookups were kept, and their tracebacks' frames."""
    topic = await cluster.topic("goes", durability="replicated")
    for _ in range(3):
        assert (await cluster.append(topic, batch(b"x" * 10_000))).error == 0
    gc.collect()
    gc.disable()
    try:
        for offset in range(3):
            disk.evict(str(directory(cluster, "goes")))
            assert (await cluster.fetch(topic, offset)).error == 0
            assert (await cluster.list_offset(topic, 1)).error == 0
        assert _open_below(tmp_path, "goes-0")
        await cluster.write(keys.topic("goes"), None)
        await until(lambda: not _open_below(tmp_path, "goes-0"))
    finally:
        gc.enable()


@pytest.mark.parametrize("unreadable", ["index", ".log"])
async def test_the_files_of_a_deleted_topic_whose_reads_failed_are_closed_at_once(
    cluster: StorageCluster, disk: HeldDisk, tmp_path: Path, unreadable: str
) -> None:
    """An error's traceback has the frames of the lookup, and so the log. Who raises it again must not be one of its frames."""
    topic = await cluster.topic("goes", durability="replicated")
    for _ in range(3):
        assert (await cluster.append(topic, batch(b"x" * 10_000))).error == 0
    gc.collect()
    gc.disable()
    try:
        disk.evict(str(directory(cluster, "goes")))
        disk.unreadable = unreadable
        assert ErrorCode.KAFKA_STORAGE_ERROR in [(await cluster.fetch(topic, offset)).error for offset in range(3)]
        await cluster.list_offset(topic, 1)
        disk.unreadable = ""
        await cluster.write(keys.topic("goes"), None)
        await until(lambda: not _open_below(tmp_path, "goes-0"))
    finally:
        gc.enable()


async def test_the_files_of_the_last_topic_are_closed_at_once_after_a_check_of_its_isr(
    cluster: StorageCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A task that has looked at each partition sleeps until its next round. It kept the one that it saw last, for good."""
    considered: list[tuple[bytes, int]] = []
    monkeypatch.setattr(IsrChanges, "consider", lambda _, partition: considered.append(partition.key))
    topic = await cluster.topic("goes", durability="replicated")
    partition_of(cluster, topic).replica.has_followers = True
    await until(lambda: considered)
    assert _open_below(tmp_path, "goes-0")
    await cluster.write(keys.topic("goes"), None)
    await until(lambda: not _open_below(tmp_path, "goes-0"))


async def test_nothing_grows_with_the_topics_that_came_and_went(cluster: StorageCluster) -> None:
    await cluster.topic("stays")
    await _come_and_go(cluster, "first", 3)
    before = _sizes(cluster.node)
    await _come_and_go(cluster, "second", COUNT)
    grown: dict[str, tuple[int, int]] = {}

    def nothing_grew() -> bool:
        grown.clear()
        grown.update(_grown(before, _sizes(cluster.node)))
        return not grown

    await until(nothing_grew, 10)  # reports to a controller are tried, and dropped, once a second


async def test_a_shard_that_left_its_node_leaves_no_owner_behind(cluster: StorageCluster) -> None:
    assert cluster.node is not None
    owners = cluster.node.opened.appends.owners
    for number in range(3):
        topic = await cluster.topic(OFFSETS)
        await cluster.give(topic, 0, CALLER, 1)
        response = await cluster.caller(GROUP_COORDINATOR).call(CLAIM, Claim(topic, 0, 0, 1, 1), timeout_s=WAIT_S)
        assert unpack(Claimed, response.body).error == 0
        assert len(owners) == 1, number
        await _delete(cluster, OFFSETS, topic)
        assert len(owners) == 0, number


COUNT = 20
"""Topics that came and went. What grew by as many has kept them."""
OFFSETS = "__consumer_offsets"


async def _come_and_go(cluster: StorageCluster, name: str, count: int) -> None:
    assert cluster.node is not None
    for number in range(count):
        topic = await cluster.topic(f"{name}-{number}")
        assert (await cluster.append(topic, batch(b"x"))).error == 0
        assert (await cluster.fetch(topic, 0)).error == 0
        await _delete(cluster, f"{name}-{number}", topic)
    await until(lambda: not list(Path(cluster.config.data_dir).glob("logs/*-delete")))


async def _delete(cluster: StorageCluster, name: str, topic: bytes) -> None:
    assert cluster.node is not None
    node = cluster.node
    await cluster.write(keys.topic(name), None)
    await cluster.write(keys.partition(topic, 0), None)
    await until(lambda: (topic, 0) not in node.opened.open_logs)
    await node.opened.reconciler.settled()


def _grown(before: Counter[str], after: Counter[str]) -> dict[str, tuple[int, int]]:
    return {path: (before[path], size) for path, size in after.items() if size >= before[path] + COUNT}


CONTAINERS = (dict, list, set, deque, WeakKeyDictionary, WeakValueDictionary)


def _sizes(root: object) -> Counter[str]:
    """The sizes of all containers that our objects below `root` keep, by the classes and attributes on the way there."""
    sizes: Counter[str] = Counter()
    seen: set[int] = set()
    waiting: deque[tuple[str, Any]] = deque([(type(root).__name__, root)])
    while waiting:
        path, value = waiting.popleft()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, deque) and value.maxlen is not None:
            continue  # bounded, whoever fills it
        if isinstance(value, CONTAINERS):
            sizes[path] += len(value)
            values = value.values() if hasattr(value, "values") else value
            waiting.extend([(path, item) for item in [*values, *(value if isinstance(value, dict) else ())]])
        elif isinstance(value, tuple):
            waiting.extend([(path, item) for item in value])
        elif type(value).__module__.startswith(("services.", "libs.")) and not isinstance(value, MemoryStore):
            waiting.extend([(f"{type(value).__name__}.{name}", item) for name, item in _attributes(value)])
        elif callable(value) and hasattr(value, "__self__"):
            waiting.append((path, value.__self__))
    return sizes


def _attributes(value: object) -> Iterator[tuple[str, Any]]:
    yield from getattr(value, "__dict__", {}).items()
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            if hasattr(value, name):
                yield name, getattr(value, name)


def _open_below(path: Path, directory: str) -> list[str]:
    """The open files in the partition directories of this process whose name begins with `directory`."""
    return [file for file in open_files(os.getpid()) if file.startswith(f"{path}/") and f"/{directory}" in file]
