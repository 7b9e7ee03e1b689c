"""Backups of a metadata store, and stores that are filled from them."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from libs.cluster import keys
from libs.cluster.codec import RecordError, decode, encode
from libs.cluster.image import ClusterImage
from libs.cluster.memory.memory_keyspace import Keyspace
from libs.cluster.memory.memory_store import LostAnswer, MemoryStore
from libs.cluster.records import HistoryEntry, MetadataHistory, Topic
from libs.cluster.saved_metadata import SavedMetadata, parse_file
from libs.cluster.scram_credentials import SCRAM_SHA_256
from libs.cluster.store import Compare, Operation, Put, TxnResult
from libs.rpc.contracts.controller import NewTopic
from services.controller.core.administration.first_users import first_users
from services.controller.core.elections.doubt import EPOCHS_SKIPPED, PRODUCER_IDS_SKIPPED
from services.controller.core.recovery.node_holdings import Source
from services.controller.core.recovery.restored_metadata import restored
from services.controller.recovery.store_contents import RecoveryRefused, fill_store, read_store
from services.controller.recovery.users import GONE, NOT_SAVED, SAVED, THERE, told, with_users
from tests.cluster.conftest import run_virtually
from tests.controller.images import led_by, storage, topic_id
from tests.controller.running_controller import running_controller

LATER = (keys.PREFIX + "later/a/b", b'{"of":"a later version"}')


async def store_of(image_values: dict[str, bytes]) -> MemoryStore:
    store = MemoryStore(Keyspace())
    for key, value in image_values.items():
        await store.txn([], [Put(key, value)])
    return store


async def cluster(partitions: int = 3) -> MemoryStore:
    store = MemoryStore(Keyspace())
    async with running_controller(store) as running:
        await running.elected()
        lease = await store.grant_lease(60)
        member = storage(1)
        await store.txn([], [Put(keys.member("storage", 1), encode(member), lease)])
        await running.image_when(lambda image: 1 in image.members("storage"))
        reply = await running.create(NewTopic("t", partitions, 1, configs=(("retention.ms", "77"),)))
        assert not any(result.error for result in reply.topics)
        await running.controller.allocate_producer_ids()
    await store.txn([], [Put(*LATER)])
    return store


async def backup(store: MemoryStore) -> SavedMetadata:
    return parse_file(await read_store(store, 5))


async def image_in(store: MemoryStore) -> ClusterImage:
    return ClusterImage.from_range(await store.range(keys.PREFIX))


def test_a_store_comes_back_from_its_backup_with_all_partitions_in_doubt_and_producer_ids_skipped() -> None:
    async def scenario() -> None:
        former = await cluster(partitions=300)
        saved = await backup(former)
        store = MemoryStore(Keyspace())
        await fill_store(store, restored(saved, now_ms=1000))
        before, after = await image_in(former), await image_in(store)
        assert (after.cluster_id, after.feature_level) == (before.cluster_id, before.feature_level)
        assert (after.topics, after.overrides("topic", "t")) == (before.topics, {"retention.ms": "77"})
        assert after.next_producer_id == 1000 + PRODUCER_IDS_SKIPPED
        assert (after.members_by_role, after.controller) == ({}, None)
        for id_, index, state in before.states():
            doubted = after.partition(id_, index)
            assert doubted is not None
            assert (doubted.replicas, doubted.leader) == (state.replicas, -1)
            assert doubted.leader_epoch == state.leader_epoch + EPOCHS_SKIPPED
        assert len(list(after.states())) == 300
        kept = await store.get(LATER[0])
        assert kept is not None
        assert kept.value == LATER[1]

    run_virtually(scenario())


def test_revisions_of_the_history_are_older_than_all_of_the_new_store() -> None:
    history = MetadataHistory((HistoryEntry(3, 700), HistoryEntry(4, 800)), (1,))
    values = {keys.CLUSTER_ID: encode("c"), keys.HISTORY: encode(history)}

    async def scenario() -> None:
        content = restored(await backup(await store_of(values)), now_ms=1000)
        assert decode(MetadataHistory, content[keys.HISTORY]) == MetadataHistory(
            (HistoryEntry(3, 0), HistoryEntry(4, 0)), (1,), restored_ms=1000
        )

    run_virtually(scenario())


def test_a_store_that_holds_a_cluster_is_not_filled_and_one_that_holds_none_is_not_backed_up() -> None:
    async def scenario() -> None:
        store = await cluster()
        saved = await backup(store)
        before = await image_in(store)
        with pytest.raises(RecoveryRefused, match="holds a cluster"):
            await fill_store(store, restored(saved, now_ms=1000))
        assert await image_in(store) == before
        with pytest.raises(RecoveryRefused, match="no cluster"):
            await read_store(MemoryStore(Keyspace()), 5)

    run_virtually(scenario())


class BreakingStore(MemoryStore):
    """A store that does not answer the third transaction and those behind it, though it applies the third."""

    async def txn(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> TxnResult:
        self.transactions = getattr(self, "transactions", 0) + 1
        if self.transactions == 3:
            self.lost_answers.append(LostAnswer.APPLIED)
        return await super().txn(compares, operations)


def test_an_attempt_that_broke_off_leaves_no_cluster_and_nothing_behind_for_the_next() -> None:
    wanted = {keys.CLUSTER_ID: encode("c")}
    wanted |= {keys.partition(topic_id(1), index): encode(led_by(1)) for index in range(250)}
    others = {keys.topic(f"old-{number}"): encode(Topic(f"old-{number}", "00" * 16, 1)) for number in range(30)}

    async def scenario() -> None:
        store = BreakingStore(Keyspace())
        with pytest.raises(RecoveryRefused, match="did not confirm"):
            await fill_store(store, others | wanted)
        assert len((await store.range(keys.PREFIX)).items) == 200
        assert await store.get(keys.CLUSTER_ID) is None
        await fill_store(store, wanted)
        assert {item.key: item.value for item in (await store.range(keys.PREFIX)).items} == wanted

    run_virtually(scenario())


def test_credentials_are_in_a_backup_that_is_asked_for_them_and_come_back(tmp_path: Path) -> None:
    user = keys.scram_credential(SCRAM_SHA_256, "alice")

    async def scenario() -> None:
        store = MemoryStore(Keyspace())
        users = first_users([("entry", "SCRAM-SHA-256=[name=alice,password=secret]")], lambda: b"sixteen bytes of")
        async with running_controller(store, first_users=users) as running:
            await running.elected()
        plain = parse_file(await read_store(store, 5))
        secret = parse_file(await read_store(store, 6, with_credentials=True))
        assert told(contents(plain), SAVED, NOT_SAVED) == NOT_SAVED
        assert told(contents(secret), SAVED, NOT_SAVED) == SAVED.format(users="1 user")
        target = MemoryStore(Keyspace())
        await target.txn([], [Put(keys.scram_credential(SCRAM_SHA_256, "of an attempt before"), b"{}")])
        await fill_store(target, with_users(restored(secret, now_ms=1000), (), None))
        before, after = [{item.key: item.value for item in (await each.range(keys.SCRAM)).items} for each in (store, target)]
        assert after == before

        # What the copies of storage nodes lack comes from a backup, and from the file.
        rebuilt = with_users({keys.CLUSTER_ID: b"c"}, [Source("backup", secret), Source("older", plain)], None)
        assert rebuilt == {keys.CLUSTER_ID: b"c", **before}
        file = tmp_path / "users"
        file.write_text("SCRAM-SHA-256=[name=alice,password=another]\nSCRAM-SHA-256=[name=bob,password=p]\n", encoding="utf-8")
        added = with_users(rebuilt, (), str(file))
        assert added[keys.SCRAM_SECRET] == before[keys.SCRAM_SECRET]
        assert added[user] != before[user]
        assert told(added, THERE, GONE) == THERE.format(users="2 users")
        without = with_users(restored(plain, now_ms=1000), (), None)
        assert told(without, THERE, GONE) == GONE
        assert keys.SCRAM_SECRET in with_users(without, (), str(file))
        with pytest.raises(RecoveryRefused, match="none cannot be read"):
            with_users(without, (), str(tmp_path / "none"))

    def contents(saved: SavedMetadata) -> dict[str, bytes]:
        return {item.key: item.value for item in saved.items}

    run_virtually(scenario())


def test_a_value_that_no_line_can_hold_is_not_backed_up() -> None:
    async def scenario() -> None:
        store = await store_of({keys.CLUSTER_ID: encode("c"), keys.SCRAM_SECRET: b"two\nlines"})
        with pytest.raises(RecordError, match="is no line of text"):
            await read_store(store, 5, with_credentials=True)

    run_virtually(scenario())
