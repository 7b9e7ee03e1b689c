"""*Rule: fencing* (docs/rules.md): only the owner whose claim stands writes an internal topic, and only where its log ends."""

import asyncio
from dataclasses import replace

import pytest

from libs.cluster import keys, shard_owners
from libs.cluster.codec import decode, encode
from libs.cluster.records import GROUP_COORDINATOR, TRANSACTION_COORDINATOR, PartitionState
from libs.rpc.client.rpc_client import RpcClient
from libs.rpc.contracts.ownership import CLAIM, Claim, Claimed, NamedOwner
from libs.rpc.contracts.storage import APPEND, FETCH, Append, Appended, AppendPartition, Fetch, FetchPartition
from libs.rpc.messages.errors import CLUSTER_AUTHORIZATION_FAILED, RpcError
from libs.rpc.messages.schema import unpack
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.keyed_batches import TransactionalBatch, build_keyed_batch
from libs.wire.record_batches.markers import Marker, marker_record
from services.storage.core.produce.admission import Refusal
from services.storage.core.produce.ownership import UNNAMED_OWNER, ImageOwner, Ownership, Standing
from services.storage.partition import leader_checks
from tests.storage.cluster import CALLER, WAIT_S, StorageCluster, appended, batch, fetched
from tests.storage.fake_controller import FakeController
from tests.storage.held_disk import HeldDisk
from tests.storage.held_reads import Cut, HeldReads, cut_off, unanswered
from tests.support.polling import until

TOPIC = "__consumer_offsets"
TRANSACTIONS = "__transaction_state"
OTHER = shard_owners.Owner(102, 1)


class Owner:
    def __init__(
        self,
        cluster: StorageCluster,
        topic: bytes,
        epoch: int,
        leader_epoch: int = 0,
        *,
        node_id: int = CALLER.node_id,
        role: str = GROUP_COORDINATOR,
    ) -> None:
        self.cluster, self.topic, self.epoch, self.leader_epoch = cluster, topic, epoch, leader_epoch
        self.number = 0
        self.role, self.node_id = role, node_id

    @property
    def client(self) -> RpcClient:
        return self.cluster.caller(self.role, self.node_id)

    async def named(self) -> None:
        """The store names it, unless it names a newer owner. The node may hear of that later."""
        stored = await self.cluster.store.get(keys.partition(self.topic, 0))
        state = decode(PartitionState, stored.value) if stored is not None else None
        if state is not None and state.owner_epoch < self.epoch:
            owner = shard_owners.Owner(self.node_id, CALLER.incarnation)
            named = replace(state, owner=str(owner), owner_epoch=self.epoch)
            await self.cluster.write(keys.partition(self.topic, 0), encode(named))

    async def claim(self, number: int = 0, *, lies: bool = False) -> Claimed:
        """`lies`: the store does not name it."""
        if not lies:
            await self.named()
        self.number = number or self.number + 1
        wanted = Claim(self.topic, 0, self.leader_epoch, self.epoch, self.number)
        response = await self.client.call(CLAIM, wanted, timeout_s=WAIT_S)
        return unpack(Claimed, response.body)

    def sending(self, offset: int, records: bytes | None = None, *, acks: int = -1, number: int = 0):  # type: ignore[no-untyped-def]
        records = batch(b"x") if records is None else records
        part = AppendPartition(
            self.topic,
            0,
            self.leader_epoch,
            len(records),
            self.epoch,
            number or self.number,
            offset,
        )
        payload = [records] if records else []
        return self.client.call(APPEND, Append(acks, 5000, (part,)), payload, timeout_s=WAIT_S)

    async def append(self, offset: int, records: bytes | None = None, *, acks: int = -1, number: int = 0) -> Appended:
        return appended(await self.sending(offset, records, acks=acks, number=number))[0]


async def owned_by(
    cluster: StorageCluster, topic: bytes, owner_epoch: int, leader_epoch: int = 0, owner: shard_owners.Owner | None = CALLER
) -> None:
    """The image says so, here."""
    await cluster.give(topic, 0, owner, owner_epoch, leader_epoch=leader_epoch)

    def heard() -> bool:
        assert cluster.node is not None
        state = cluster.node.partitions.image.partition(topic, 0)
        return state is not None and state.owner_epoch == owner_epoch and state.leader_epoch == leader_epoch

    await until(heard)
    await cluster.leads(topic, 0, leader_epoch)


async def test_a_claim_tells_where_the_log_starts_and_ends_and_what_of_it_is_committed(cluster: StorageCluster) -> None:
    topic = await cluster.topic(TOPIC, cleanup_policy="compact")
    owner = Owner(cluster, topic, 1)
    assert await owner.claim() == Claimed(0, 0, 0, 0)
    assert (await owner.append(0, batch(b"a", b"b"))).base_offset == 0
    assert await owner.claim() == Claimed(0, 0, 2, 2)


async def test_an_owner_whose_clock_is_days_off_is_not_refused_for_its_timestamps(cluster: StorageCluster) -> None:
    owner = Owner(cluster, await cluster.topic(TOPIC, cleanup_policy="compact", message_timestamp_before_max_ms="1000"), 1)
    await owner.claim()
    assert (await owner.append(0, batch(b"a", timestamp=4_000_000_000_000))).error == 0
    assert (await owner.append(1, batch(b"b", timestamp=1))).error == 0


async def test_a_claim_counts_what_is_not_committed_yet(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await cluster.topic(TOPIC)
    owner = Owner(cluster, topic, 1)
    await owner.claim()
    disk.hold()
    waiting = owner.sending(0)
    successor = Owner(cluster, topic, 2)
    assert await successor.claim() == Claimed(0, 0, 1, 0)
    disk.release()
    assert appended(await waiting)[0].error == 0  # it stands below the end that the successor was told


@pytest.mark.parametrize("offset", [0, 2])
async def test_an_append_that_does_not_stand_at_the_logs_end_is_refused(cluster: StorageCluster, offset: int) -> None:
    owner = Owner(cluster, await cluster.topic(TOPIC), 1)
    await owner.claim()
    await owner.append(0)
    assert (await owner.append(offset)).error == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (await owner.append(1)).error == 0


async def test_a_deposed_owners_second_pipelined_append_is_refused_although_its_offset_fits(cluster: StorageCluster) -> None:
    topic = await cluster.topic(TOPIC)
    owner, successor = Owner(cluster, topic, 1), Owner(cluster, topic, 2)
    await owner.claim()
    first = owner.sending(0)
    assert (await successor.claim()).log_end_offset == 1
    assert appended(await first)[0].error == 0
    assert (await owner.append(1)).error == ErrorCode.NOT_COORDINATOR
    assert (await successor.append(1)).error == 0


async def test_appends_of_one_read_stand_behind_each_other_or_not_at_all(cluster: StorageCluster) -> None:
    owner = Owner(cluster, await cluster.topic(TOPIC), 1)
    await owner.claim()
    sent = [owner.sending(0), owner.sending(1), owner.sending(1)]
    assert [appended(await one)[0].error for one in sent] == [0, 0, ErrorCode.OFFSET_OUT_OF_RANGE]


async def test_an_owner_that_was_deposed_cannot_claim_again(cluster: StorageCluster) -> None:
    topic = await cluster.topic(TOPIC)
    owner = Owner(cluster, topic, 1)
    await owner.claim()
    await Owner(cluster, topic, 2).claim()
    assert (await owner.claim()).error == ErrorCode.NOT_COORDINATOR


async def test_an_owner_epoch_below_that_of_the_image_is_refused_before_the_successor_claims(cluster: StorageCluster) -> None:
    topic = await cluster.topic(TOPIC)
    owner = Owner(cluster, topic, 1)
    await owner.claim()
    await owned_by(cluster, topic, 2)
    assert (await owner.append(0)).error == ErrorCode.NOT_COORDINATOR
    assert (await owner.claim()).error == ErrorCode.NOT_COORDINATOR


async def late_image(cluster: StorageCluster) -> bytes:
    """A topic whose owner has epoch 1. The node hears of nothing that is newer."""
    topic = await cluster.topic(TOPIC)
    await owned_by(cluster, topic, 1)
    cluster.store.watch_delay_s = 3600.0
    return topic


async def test_a_claim_may_be_ahead_of_the_leaders_image(cluster: StorageCluster) -> None:
    topic = await late_image(cluster)
    owner = Owner(cluster, topic, 5)
    assert (await owner.claim()).error == 0
    assert (await owner.append(0)).error == 0
    assert (await Owner(cluster, topic, 4).claim()).error == ErrorCode.NOT_COORDINATOR


async def test_a_coordinator_that_nobody_names_takes_no_shard_and_holds_up_no_owner(cluster: StorageCluster) -> None:
    topic = await late_image(cluster)
    owner, liar = Owner(cluster, topic, 1), Owner(cluster, topic, 1 << 30, node_id=OTHER.node_id)
    assert (await owner.claim()).error == 0
    assert (await liar.claim(lies=True)).error == ErrorCode.NOT_ENOUGH_REPLICAS
    assert (await liar.append(0)).error == ErrorCode.FENCED_LEADER_EPOCH
    assert (await owner.append(0)).error == 0
    successor = Owner(cluster, topic, 2)
    assert (await successor.claim()).error == 0
    assert (await successor.append(1)).error == 0


async def test_the_store_names_the_owner_of_an_epoch_that_the_image_lacks(cluster: StorageCluster) -> None:
    topic = await late_image(cluster)
    await Owner(cluster, topic, 2).named()
    assert (await Owner(cluster, topic, 2, node_id=OTHER.node_id).claim(lies=True)).error == ErrorCode.NOT_COORDINATOR
    assert (await Owner(cluster, topic, 2).claim()).error == 0


async def test_without_the_store_the_controllers_name_the_owner(cluster: StorageCluster, controller: FakeController) -> None:
    topic = await late_image(cluster)
    cluster.store.unavailable = True
    controller.owners[topic, 0] = NamedOwner(str(CALLER), 3)
    liar = Owner(cluster, topic, 4, node_id=OTHER.node_id)
    assert (await liar.claim(lies=True)).error == ErrorCode.NOT_ENOUGH_REPLICAS
    owner = Owner(cluster, topic, 3)
    assert (await owner.claim(lies=True)).error == 0
    controller.owners.clear()
    assert (await owner.claim(lies=True)).error == 0, "this leader knows the owner of that epoch"
    assert (await owner.append(0)).error == 0


@pytest.mark.parametrize("cut", [cut_off, unanswered])
async def test_while_neither_the_store_nor_a_controller_answers_a_claim_ahead_of_the_image_is_tried_again(
    cluster: StorageCluster, monkeypatch: pytest.MonkeyPatch, cut: Cut
) -> None:
    monkeypatch.setattr(leader_checks, "STORE_S_MAX", 0.05)
    topic = await late_image(cluster)
    owner = Owner(cluster, topic, 2)
    await owner.named()
    reads = HeldReads(cluster.store, monkeypatch)
    cut(cluster, reads)
    assert (await owner.claim(lies=True)).error == ErrorCode.NOT_ENOUGH_REPLICAS
    cluster.store.unavailable = False
    reads.release()
    assert (await owner.claim()).error == 0


async def test_claims_of_one_shard_that_wait_share_a_question(cluster: StorageCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = await late_image(cluster)
    reads = HeldReads(cluster.store, monkeypatch)
    reads.hold()
    liar = Owner(cluster, topic, 7)
    claims = [liar.client.call(CLAIM, Claim(topic, 0, 0, 7, number), timeout_s=WAIT_S) for number in range(20)]
    assert (await liar.append(0)).error == ErrorCode.FENCED_LEADER_EPOCH, "all claims have come"
    await until(lambda: reads.served == 1)
    reads.release()
    answers = [unpack(Claimed, response.body) for response in await asyncio.gather(*claims)]
    assert {answer.error for answer in answers} == {ErrorCode.NOT_ENOUGH_REPLICAS}
    assert reads.served <= 2


async def test_an_append_sent_before_a_claim_is_not_stored_after_it(cluster: StorageCluster) -> None:
    owner = Owner(cluster, await cluster.topic(TOPIC), 1)
    await owner.claim()
    await owner.claim()
    assert (await owner.append(0, number=1)).error == ErrorCode.FENCED_LEADER_EPOCH
    assert (await owner.append(0)).error == 0


async def test_a_claim_that_comes_late_is_not_taken(cluster: StorageCluster) -> None:
    owner = Owner(cluster, await cluster.topic(TOPIC), 1)
    await owner.claim(2)
    assert (await owner.claim(1)).error == ErrorCode.FENCED_LEADER_EPOCH
    assert (await owner.append(0, number=2)).error == 0


@pytest.mark.parametrize(("epoch", "error"), [(3, ErrorCode.FENCED_LEADER_EPOCH), (5, ErrorCode.NOT_LEADER_OR_FOLLOWER)])
async def test_a_claim_names_the_epoch_in_which_the_leader_leads(cluster: StorageCluster, epoch: int, error: int) -> None:
    topic = await cluster.topic(TOPIC, epoch=4)
    assert (await Owner(cluster, topic, 1, leader_epoch=epoch).claim()).error == error


async def test_a_claim_ends_with_the_leader_epoch_in_which_it_was_taken(cluster: StorageCluster) -> None:
    topic = await cluster.topic(TOPIC)
    owner = Owner(cluster, topic, 1)
    await owner.claim()
    await cluster.state(topic, epoch=1)
    await cluster.leads(topic, 0, 1)
    assert (await owner.append(0)).error == ErrorCode.FENCED_LEADER_EPOCH
    owner.leader_epoch = 1
    assert (await owner.append(0)).error == ErrorCode.FENCED_LEADER_EPOCH
    await owner.claim()
    assert (await owner.append(0)).error == 0


async def test_the_highest_owner_epoch_is_remembered_from_one_leader_epoch_to_the_next(cluster: StorageCluster) -> None:
    topic = await cluster.topic(TOPIC)
    await Owner(cluster, topic, 7).claim()
    await cluster.state(topic, epoch=1)
    await cluster.leads(topic, 0, 1)
    assert (await Owner(cluster, topic, 6, leader_epoch=1).claim()).error == ErrorCode.NOT_COORDINATOR


async def test_an_append_without_a_batch_asks_only_whether_the_claim_stands(cluster: StorageCluster) -> None:
    topic = await cluster.topic(TOPIC)
    owner = Owner(cluster, topic, 1)
    await owner.claim()
    assert (await owner.append(0, b"")).error == 0
    await Owner(cluster, topic, 2).claim()
    assert (await owner.append(0, b"")).error == ErrorCode.NOT_COORDINATOR
    assert fetched(await cluster.fetching(topic, 0))[0].high_watermark == 0


async def test_nobody_else_writes_an_internal_topic(cluster: StorageCluster) -> None:
    topic = await cluster.topic(TOPIC, cleanup_policy="compact")
    assert (await cluster.append(topic, batch(b"x"))).error == ErrorCode.INVALID_TOPIC_EXCEPTION
    await Owner(cluster, topic, 1).claim()
    assert (await cluster.append(topic, batch(b"x"), acks=1)).error == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_only_the_owner_that_the_image_names_claims_in_its_epoch(cluster: StorageCluster) -> None:
    topic = await cluster.topic(TOPIC)
    await owned_by(cluster, topic, 3, owner=OTHER)
    assert (await Owner(cluster, topic, 3).claim()).error == ErrorCode.NOT_COORDINATOR
    assert (await Owner(cluster, topic, 3, node_id=OTHER.node_id).claim()).error == 0
    await owned_by(cluster, topic, 4, owner=None)
    assert (await Owner(cluster, topic, 4).claim()).error == ErrorCode.NOT_COORDINATOR


async def test_a_former_incarnation_of_the_owner_claims_nothing(cluster: StorageCluster) -> None:
    topic = await cluster.topic(TOPIC)
    await owned_by(cluster, topic, 3, owner=CALLER._replace(incarnation=2))
    assert (await Owner(cluster, topic, 3).claim()).error == ErrorCode.NOT_COORDINATOR


def test_an_image_that_has_not_caught_up_with_a_claim_brings_no_deposed_owner_back() -> None:
    """Images come one after the other. Each on the way to the claim's epoch names an owner that was deposed since."""
    ownership, deposed, owner = Ownership(), Standing(0, 3, 1, OTHER), Standing(0, 5, 1, shard_owners.Owner(103, 1))

    def refusal_of(writer: Standing, image: ImageOwner) -> Refusal | None:
        return ownership.refuse(writer, 0, -1, leader_epoch=0, image_owner=image, log_end=0)

    assert ownership.claim(owner, leader_epoch=0, image_owner=ImageOwner(str(CALLER), 1)) == UNNAMED_OWNER
    assert ownership.claim(owner, leader_epoch=0, image_owner=ImageOwner(str(owner.owner), 5)) is None, "so says the store"
    for image in (ImageOwner(str(OTHER), 3), ImageOwner(str(CALLER), 4), ImageOwner(str(owner.owner), 5)):
        refusal = ownership.claim(deposed, leader_epoch=0, image_owner=image)
        assert refusal is not None
        assert refusal.error == ErrorCode.NOT_COORDINATOR
        assert refusal_of(deposed, image) is not None
        assert refusal_of(owner, image) is None
    assert refusal_of(owner, ImageOwner(str(OTHER), 5)) is not None, "a store of another history named another one"


async def test_another_process_cannot_append_by_the_claim_of_the_owner(cluster: StorageCluster) -> None:
    topic = await late_image(cluster)
    owner = Owner(cluster, topic, 2)
    await owner.claim()
    other = Owner(cluster, topic, 2, node_id=OTHER.node_id)
    assert (await other.append(0, number=owner.number)).error == ErrorCode.FENCED_LEADER_EPOCH
    gateway = Owner(cluster, topic, 2, role="gateway")
    assert (await gateway.append(0, number=owner.number)).error == ErrorCode.INVALID_REQUEST
    assert (await owner.append(0)).error == 0


async def test_coordinators_write_their_own_topic_only(cluster: StorageCluster) -> None:
    topics = {name: await cluster.topic(name) for name in (TOPIC, TRANSACTIONS, "lines")}
    own = {GROUP_COORDINATOR: TOPIC, TRANSACTION_COORDINATOR: TRANSACTIONS}
    for role, allowed in own.items():
        for name, topic in topics.items():
            owner = Owner(cluster, topic, 1, role=role)
            if name == allowed:
                assert (await owner.claim()).error == (await owner.append(0)).error == 0
                continue
            with pytest.raises(RpcError, match=rf"{role} 101 may not call storage\.claim for {name}") as denied:
                await owner.claim()
            assert denied.value.code == CLUSTER_AUTHORIZATION_FAILED
            for records in (batch(b"x"), b""):
                with pytest.raises(RpcError, match=rf"may not call storage\.append for {name}"):
                    await owner.append(0, records)
            plain = AppendPartition(topic, 0, 0, 0)
            with pytest.raises(RpcError, match=rf"may not call storage\.append for {name}"):
                await owner.client.call(APPEND, Append(-1, 5000, (plain,)), timeout_s=WAIT_S)


@pytest.mark.parametrize(
    ("role", "readable"),
    [
        (GROUP_COORDINATOR, {TOPIC, "lines"}),
        (TRANSACTION_COORDINATOR, {TRANSACTIONS}),
        ("gateway", {TOPIC, TRANSACTIONS, "lines"}),
    ],
)
async def test_coordinators_read_what_they_need_only(cluster: StorageCluster, role: str, readable: set[str]) -> None:
    """A group coordinator reads when unread records were written, for lags."""
    for name in (TOPIC, TRANSACTIONS, "lines"):
        wanted = FetchPartition(await cluster.topic(name), 0, 0, 1 << 20)
        fetching = cluster.caller(role).call(FETCH, Fetch(0, 1, 1 << 20, 0, (wanted,)), timeout_s=WAIT_S)
        if name in readable:
            assert fetched(await fetching)[0].error == 0
        else:
            with pytest.raises(RpcError, match=rf"{role} 101 may not call storage\.fetch for {name}"):
                await fetching


@pytest.mark.parametrize("owner", [[None], ["1"], [1.5], [True], [None, 1, 0], [1, None, 0], [1, 1, b"0"], [1, [], 0]], ids=repr)
async def test_an_append_that_names_no_owner_as_it_should_is_refused_as_none(
    cluster: StorageCluster, owner: list[object]
) -> None:
    topic = await cluster.topic(TOPIC)
    await Owner(cluster, topic, 1).claim()
    records = batch(b"x")
    malformed = [-1, 5000, [[topic, 0, 0, len(records), *owner]]]
    with pytest.raises(RpcError) as failed:
        await cluster.caller(GROUP_COORDINATOR).call(APPEND, malformed, [records], timeout_s=WAIT_S)
    assert failed.value.code == ErrorCode.INVALID_REQUEST
    assert (await Owner(cluster, topic, 1).claim(2)).log_end_offset == 0


async def test_an_owners_append_is_acknowledged_by_all(cluster: StorageCluster) -> None:
    owner = Owner(cluster, await cluster.topic(TOPIC), 1)
    await owner.claim()
    assert (await owner.append(0, acks=1)).error == ErrorCode.INVALID_REQUEST


async def test_a_damaged_batch_of_an_owner_is_refused(cluster: StorageCluster) -> None:
    owner = Owner(cluster, await cluster.topic(TOPIC), 1)
    await owner.claim()
    bad = bytearray(batch(b"x"))
    bad[-1] ^= 1
    assert (await owner.append(0, bytes(bad))).error == ErrorCode.CORRUPT_MESSAGE
    assert (await owner.append(0)).error == 0


async def test_an_owners_append_does_not_wait_for_a_leader_to_come(cluster: StorageCluster) -> None:
    owner = Owner(cluster, (99).to_bytes(16, "big"), 1)
    assert (await owner.append(0)).error == ErrorCode.UNKNOWN_TOPIC_ID
    assert (await owner.claim()).error == ErrorCode.UNKNOWN_TOPIC_ID


async def test_owners_write_transactions_and_their_markers(cluster: StorageCluster) -> None:
    """A group coordinator has asked the transaction coordinator itself. Nobody verifies what it appends."""
    topic = await cluster.topic(TOPIC, cleanup_policy="compact")
    owner = Owner(cluster, topic, 1)
    await owner.claim()
    records = [(b"key", b"1"), (b"other", None)]

    def batch_of(epoch: int) -> bytes:
        return build_keyed_batch(records, 1, TransactionalBatch(7, epoch))

    def marker(epoch: int, coordinator_epoch: int = 0) -> bytes:
        record = marker_record(Marker(aborts=True, coordinator_epoch=coordinator_epoch))
        return build_keyed_batch([record], 1, TransactionalBatch(7, epoch, is_marker=True))

    assert (await owner.append(0, batch_of(3))).error == 0
    assert (await owner.append(2, batch_of(3))).error == 0, "batches of coordinators have no sequences"
    assert cluster.node is not None
    log = cluster.node.partitions.by_key[topic, 0].log
    assert log.producers.transactions.ongoing == ((0, 7),)
    assert (await owner.append(4, batch_of(2))).error == ErrorCode.INVALID_PRODUCER_EPOCH
    assert (await owner.append(4, marker(2))).error == ErrorCode.INVALID_PRODUCER_EPOCH
    assert (await owner.append(4, marker(4, coordinator_epoch=5))).error == 0
    assert log.producers.transactions.ongoing == ()
    assert (await owner.append(5, marker(4, coordinator_epoch=4))).error == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert (await owner.append(5, batch_of(3))).error == ErrorCode.INVALID_PRODUCER_EPOCH
    damaged = bytearray(batch_of(4))
    damaged[-1] ^= 1
    assert (await owner.append(5, bytes(damaged))).error == ErrorCode.CORRUPT_MESSAGE
    nothing = build_keyed_batch([(b"\0\0\0\7", b"")], 1, TransactionalBatch(7, 4, is_marker=True))
    assert (await owner.append(5, nothing)).error == ErrorCode.INVALID_RECORD
    assert (await owner.append(5)).error == 0, "all that was refused left no trace"
