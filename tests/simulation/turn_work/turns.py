"""Turns of event loops, on state of any size. Each function makes the state that clients left, and names what a loop then does at
once."""

import itertools
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.image import ClusterImage
from libs.cluster.records import InSync, PartitionState, Replica, Topic
from libs.cluster.store import WatchBatch, WatchEvent
from libs.commitlog.model.config import LogConfig
from libs.commitlog.partition_log.log import BatchMeta, Log
from libs.commitlog.producers.producer_entries import FIRST
from libs.coordinator.core.decisions import Expired
from libs.coordinator.core.observed_machine import ObservedMachine
from libs.coordinator.core.tables import Journal
from libs.wire.messages.describe_groups import DescribeGroupsRequest
from libs.wire.messages.heartbeat import HeartbeatRequest
from libs.wire.messages.list_groups import ListGroupsRequest
from libs.wire.record_batches.batches import BatchHeader
from libs.wire.record_batches.markers import Marker
from libs.wire.record_batches.records import Record, build_batch
from services.group_coordinator.core.model.requests import RequestEvent
from services.group_coordinator.introspection.groups import GroupViews
from services.group_coordinator.metadata.topics import Topics
from services.transaction_coordinator.core.requests import AddPartitions, EndTransaction, ListTransactions
from services.transaction_coordinator.core.transaction_machine import EXPIRY
from tests.coordinator.one_shard import CoordinatorRequest
from tests.group_coordinator.offsets.stage import CHECK_MS, GroupStage
from tests.transaction_coordinator.stage import TransactionStage

Turn = tuple[str, Callable[[], object]]
DAY_MS = 86_400_000
TRANSACTIONAL, CONTROL = 0x10, 0x20


def append(log: Log, producer_id: int, *, sequence: int = 0, attributes: int = 0) -> None:
    offset = log.log_end_offset
    header = BatchHeader(offset, 49, 0, 2, 0, attributes, 0, 1000, 1000, producer_id, 0, sequence, 1)
    log.producers.check(header)
    log.producers.record(header, offset)
    log.append([bytes(61)], [BatchMeta(offset, offset, 61, 1000, offset, 0)])


def append_batch(log: Log) -> None:
    offset = log.log_end_offset
    batch = build_batch([Record(None, b"", 1000)], base_offset=offset)
    log.append([batch], [BatchMeta(offset, offset, len(batch), 1000, offset, 0)])


def end(log: Log, producer_id: int) -> None:
    offset = log.log_end_offset
    header = BatchHeader(offset, 66, 0, 2, 0, TRANSACTIONAL | CONTROL, 0, 1000, 1000, producer_id, 0, -1, 1)
    log.producers.record_marker(header, offset, Marker(aborts=True, coordinator_epoch=0))
    log.append([bytes(78)], [BatchMeta(offset, offset, 78, 1000, offset, 0)])


def producers(log: Log, count: int) -> Iterator[Turn]:
    """Idempotent producers of a partition."""
    entries = log.producers.entries
    for each in range(count):
        entries.put(each, FIRST.pack(each, 0, -1, 1, -1, 1, 0, each, 0, 1))
    append(log, 0, sequence=1)
    yield "append", lambda: append(log, 1, sequence=1)
    yield "append of a new producer", lambda: append(log, count)
    yield "roll", log.roll
    yield "resume point", lambda: log.sync_targets(resume_point=True)
    yield "append after a save", lambda: append(log, 2, sequence=1)
    yield "view for a move or the cleaner", log.producers.view
    yield "expiry of none", lambda: log.producers.expire(0, DAY_MS)
    while entries.is_expiring:
        log.producers.expire(0, DAY_MS)
    yield "expiry of all", lambda: log.producers.expire(DAY_MS, DAY_MS)
    yield "eviction", lambda: log.producers.evict(0, 100)


def small_batches(log: Log, count: int) -> Iterator[Turn]:
    """Batches of a partition whose topic asks for no entry in an index."""
    log.config = LogConfig(index_interval_bytes=1 << 30)
    append(log, -1)
    log.roll()
    for _ in range(count):
        append_batch(log)
    end_offset = log.log_end_offset
    yield "read of the last batch", lambda: log.read(end_offset - 1, 1, end_offset, at_least_one_batch=True)
    yield "read up to an offset", lambda: log.read(1, 1, end_offset - 1, at_least_one_batch=True)


def open_transactions(log: Log, count: int) -> Iterator[Turn]:
    """Producers of a partition, each with a transaction open."""
    for each in range(count):
        append(log, each, attributes=TRANSACTIONAL)
    yield "first batch of a transaction", lambda: append(log, count, attributes=TRANSACTIONAL)
    yield "marker", lambda: end(log, count // 2)
    yield "last stable offset", lambda: log.last_stable_offset(log.log_end_offset)
    yield "oldest transactions", lambda: log.producers.transactions.oldest(20)
    yield "eviction of none", lambda: log.producers.evict(0)
    end(log, 1)
    yield "eviction of the closed ones", lambda: log.producers.evict(0, 10)


def aborted_transactions(log: Log, count: int) -> Iterator[Turn]:
    """Aborted transactions of a partition, beside one that is open for all of that time."""
    append(log, -1)
    log.config = LogConfig()
    log.roll()
    append(log, 0, attributes=TRANSACTIONAL)
    start_offset = log.producers.transactions.oldest(1)[0][0]
    for _ in range(count):
        append(log, 1, attributes=TRANSACTIONAL)
        end(log, 1)
    end(log, 0)
    append(log, 1, attributes=TRANSACTIONAL)
    end_offset = log.log_end_offset
    yield "marker", lambda: end(log, 1)
    yield "aborted transactions of a small read", lambda: log.aborted.between(log.segments, start_offset, start_offset + 2)
    yield "the first few of a large one", lambda: log.aborted.between(log.segments, start_offset, end_offset, 5)


def groups(_: Log, count: int) -> Iterator[Turn]:
    """Groups of a shard, each with a member and an offset."""
    stage = GroupStage()
    stage.counts_are_checked = False
    members = []
    for each in range(count):
        member_id, generation = stage.member("t", name=f"g{each}")
        stage.commit({("t", 0): 1}, name=f"g{each}", member_id=member_id, generation=generation)
        members.append((member_id, generation))
    member_id, generation = members[count // 2]
    name = f"g{count // 2}"
    beat = HeartbeatRequest(name, generation, member_id, None)
    yield "heartbeat", lambda: stage.shard.submit(RequestEvent(beat, 4, "c", "h", ""), stage.now_ms, CoordinatorRequest(beat))
    yield "append that follows", stage.settle
    describe = DescribeGroupsRequest([name])
    yield "DescribeGroups of one", lambda: stage.ask(describe, 5)
    listing = RequestEvent(ListGroupsRequest([], []), 5, "c", "h", "")
    some = [*itertools.chain(*stage.machine.names())][:10]
    yield "names for ListGroups", stage.machine.names
    yield "a turn of ListGroups", lambda: stage.machine.decide(listing._replace(names=some), stage.now_ms)
    yield from views(stage)
    yield "numbers of groups by state", lambda: (dict(stage.machine.counts.states), dict(stage.machine.counts.members))
    stage.stopped = True
    stage.now_ms += CHECK_MS + 60_000
    yield from (("due timer", lambda: stage.shard.expire(stage.now_ms)) for _ in range(3))


def views(stage: GroupStage) -> Iterator[Turn]:
    """The first turns of views that look at all groups."""
    observed = ObservedMachine(stage.machine, Journal(), lambda *_: None)
    shards: Any = SimpleNamespace(serving={0: SimpleNamespace(machine=observed)})
    unused: Any = None
    clock: Any = SimpleNamespace(wall_ms=lambda: stage.now_ms)
    shown = GroupViews(shards, unused, unused, unused, clock)
    listing, measuring = shown.groups().__await__(), shown.offsets(5).__await__()
    yield "first turn of /debug/groups", lambda: next(listing, None)
    yield "second turn of /debug/groups", lambda: next(listing, None)
    yield "first turn of lag metrics", lambda: next(measuring, None)
    yield "second turn of lag metrics", lambda: next(measuring, None)


def members(_: Log, count: int) -> Iterator[Turn]:
    """Members of one group."""
    stage = GroupStage()
    stage.counts_are_checked = False
    ids, generation = stage.stable(count)
    beat = HeartbeatRequest("g", generation, ids[0], None)
    yield "heartbeat", lambda: stage.shard.submit(RequestEvent(beat, 4, "c", "h", ""), stage.now_ms, CoordinatorRequest(beat))
    yield "commit", lambda: stage.ask_commit({("t", 0): 1}, member_id=ids[0], generation=generation)


def transactional_ids(_: Log, count: int) -> Iterator[Turn]:
    """Transactional ids of a shard, each with a transaction open."""
    stage = TransactionStage()
    producer_of = {}
    for each in range(count):
        producer_of[each] = stage.init(f"t{each}").producer
        stage.add(producer_of[each], ("a", 0), transactional_id=f"t{each}")
    chosen = count // 2
    adding = AddPartitions(f"t{chosen}", producer_of[chosen], frozenset({("b", 0)}), 0)
    ending = EndTransaction(f"t{chosen}", producer_of[chosen], True, 0)
    yield "AddPartitionsToTxn", lambda: stage.ask(adding)
    yield "EndTxn", lambda: stage.ask(ending)
    stage.stopped = True
    machine: Any = stage.shard.machine
    some = [*machine.transactions][:10]
    yield "a turn of ListTransactions", lambda: machine.decide(ListTransactions(ids=some), stage.now_ms)
    yield "numbers of transactions by state", lambda: dict(machine.index.states)
    yield "the oldest transactions", lambda: [*itertools.islice(machine.under_way(), 10)]
    stage.now_ms += 60_000
    yield "timeout of one", lambda: stage.shard.expire(stage.now_ms)
    expired = Expired(EXPIRY)
    yield "expiry of ids", lambda: stage.shard.machine.decide(expired, stage.now_ms)


def topics(_: Log, count: int) -> Iterator[Turn]:
    """Topics of the cluster."""
    state = PartitionState((Replica(1, ""), Replica(2, "")), 1, 1, 0, 0, (InSync(1, 1),))
    revisions = itertools.count(2)

    def changed(image: ClusterImage, *records: tuple[str, Any]) -> ClusterImage:
        revision = next(revisions)
        events = tuple([WatchEvent(key, encode(record), revision, revision) for key, record in records])
        return image.apply(WatchBatch(events, revision))

    ids = [each.to_bytes(16, "big") for each in range(1, count + 1)]
    records = [(keys.partition(topic_id, 0), state) for topic_id in ids]
    records += [(keys.topic(f"t{topic_id.hex()}"), Topic(f"t{topic_id.hex()}", topic_id.hex(), 1)) for topic_id in ids]  # type: ignore[misc]
    image = changed(ClusterImage(), *records)
    coordinators_view = Topics()
    coordinators_view.follow(image)
    led = changed(image, (keys.partition(ids[0], 0), state))
    yield "image of another leader", lambda: changed(image, (keys.partition(ids[0], 0), state))
    yield "changes of another leader", lambda: list(led.partition_changes_since(image))
    yield "groups' view of another leader", lambda: coordinators_view.follow(led)
    more = changed(led, (keys.topic("new"), Topic("new", "f" * 32, 1)))
    yield "groups' view of a new topic", lambda: coordinators_view.follow(more)


STATES = (producers, small_batches, open_transactions, aborted_transactions, groups, members, transactional_ids, topics)
