"""A transaction whose answer was lost may land long after whoever asked for it has asked again: it must not be applied twice."""

from collections.abc import Sequence

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.memory_keyspace import Keyspace
from libs.cluster.memory_store import MemoryStore
from libs.cluster.store import Compare, Operation, Outcome, Put, TxnResult
from libs.rpc.contracts.controller import (
    AlterConfigs,
    ConfigChange,
    ConfigResource,
    CreatePartitions,
    DeleteTopics,
    MorePartitions,
    NewTopic,
    TopicRef,
    UnregisterBroker,
)
from services.controller.registrations import unregister_node
from tests.controller.images import led_by, storage, topic_id
from tests.controller.office import Office, office, register, until, vanish
from tests.controller.test_service import story

TOPIC, BROKER, GROUP = 2, 4, 32
SET, REMOVE = 0, 1


class Recording(MemoryStore):
    """Keeps what was asked of it, so that all of it can be asked once more."""

    def __init__(self, keyspace: Keyspace) -> None:
        super().__init__(keyspace)
        self.asked: list[tuple[tuple[Compare, ...], tuple[Operation, ...]]] = []

    async def txn(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> TxnResult:
        self.asked.append((tuple(compares), tuple(operations)))
        return await super().txn(compares, operations)

    def nothing_holds_again(self) -> None:
        for compares, operations in self.asked:
            assert not self.keyspace.holds(compares), f"it would be applied again: {[each.key for each in operations]}"

    async def everything_again(self) -> list[Outcome]:
        return [(await super(Recording, self).txn(*transaction)).outcome for transaction in tuple(self.asked)]


async def delete(chair: Office, *names: str) -> None:
    request = DeleteTopics(tuple(TopicRef(name) for name in names))
    reply = await chair.controller.administer(lambda administration, term: administration.delete_topics(term, request))
    assert [result.error for result in reply.topics] == [0] * len(names)


async def grow(chair: Office, name: str, count: int) -> None:
    request = CreatePartitions((MorePartitions(name, count),))
    reply = await chair.controller.administer(lambda administration, term: administration.create_partitions(term, request))
    assert [result.error for result in reply.topics] == [0]


async def alter(chair: Office, *resources: ConfigResource) -> None:
    request = AlterConfigs(resources)
    reply = await chair.controller.administer(lambda administration, term: administration.alter_configs(term, request))
    assert [result.error for result in reply.resources] == [0] * len(resources)


def config(kind: int, name: str, key: str, value: str | None) -> ConfigResource:
    return ConfigResource(kind, name, (ConfigChange(key, SET if value is not None else REMOVE, value),))


@story
async def test_a_creation_that_lands_again_after_the_deletion_creates_nothing() -> None:
    """Its topic would be back with its id and its epochs, in which others led before."""
    store = Recording(Keyspace())
    await register(store.peer(), storage(1))
    async with office(store) as chair:
        await chair.elected()
        before = len(store.asked)
        await chair.create(NewTopic("t", 3, 1))
        store.asked = store.asked[before:]
        await delete(chair, "t")
        assert set(await store.everything_again()) == {Outcome.CONFLICT}
        assert (await store.range(keys.TOPICS)).items == ()
        assert (await store.range(keys.PARTITIONS)).items == ()


@story
async def test_nothing_that_the_controller_wrote_can_be_applied_again() -> None:
    store = Recording(Keyspace())
    await register(store.peer(), storage(1), storage(2), storage(3))
    async with office(store, defaults={"num.partitions": "3"}) as chair:
        await chair.elected()
        await until(lambda: len(chair.image.nodes) == 3)
        store.nothing_holds_again()
        await chair.create(NewTopic("small", 2, 2, configs=(("retention.ms", "5"),)), NewTopic("other", 1, 1))
        await chair.create(NewTopic("large", 130, 1, configs=(("retention.ms", "5"),)), NewTopic("kept", 1, 1))
        await grow(chair, "other", 2)
        await grow(chair, "small", 150)
        store.nothing_holds_again()
        for value in ("7", None, "8"):
            # One by one: what is written together is compared together.
            await alter(chair, config(TOPIC, "kept", "retention.ms", value))
            await alter(chair, config(BROKER, "", "log.retention.ms", value))
            await alter(chair, config(BROKER, "2", "leader.replication.throttled.rate", value))
            await alter(chair, config(GROUP, "g", "consumer.session.timeout.ms", value and "50000"))
            store.nothing_holds_again()
        await delete(chair, "small")
        store.nothing_holds_again()
        await delete(chair, "other", "large")
        store.nothing_holds_again()
        await chair.create(NewTopic("small", 2, 2))
        await vanish(store.peer(), 3)
        await until(lambda: 3 not in chair.image.members("storage"))
        await chair.controller.administer(lambda a, term: unregister_node(a, term, UnregisterBroker(3)))
        assert 3 not in chair.image.nodes
        await chair.controller.allocate_producer_ids()
        store.nothing_holds_again()
        kept = bytes.fromhex(chair.image.topics["kept"].topic_id)
        await abandon(store, (topic_id(77), 0), (topic_id(77), 1), (topic_id(78), 5), (kept, 1))
        await until(lambda: not chair.image.uncommitted_topic_ids() and _stored(chair, "kept") == 1)
        store.nothing_holds_again()
        revision = store.keyspace.revision
        assert set(await store.everything_again()) == {Outcome.CONFLICT}
        assert store.keyspace.revision == revision


@story
async def test_configs_that_are_removed_in_one_request_with_others_that_are_set_are_all_altered() -> None:
    """Names this long have transactions of their own, each of which meets the deletions before it."""
    store = MemoryStore()
    async with office(store) as chair:
        await chair.elected()
        names = [f"{'g' * 1100}{number}" for number in range(16)]
        await alter(chair, *(config(GROUP, name, "consumer.session.timeout.ms", "50000") for name in names[::2]))
        values = {name: None if number % 2 == 0 else "50000" for number, name in enumerate(names)}
        await alter(chair, *(config(GROUP, name, "consumer.session.timeout.ms", value) for name, value in values.items()))
        assert {name for kind, name in chair.image.overrides_by_resource if kind == "group"} == set(names[1::2])


async def abandon(store: MemoryStore, *partitions: tuple[bytes, int]) -> None:
    """What creations and growths leave behind that were not finished."""
    await store.peer().txn([], [Put(keys.partition(*partition), encode(led_by(1))) for partition in partitions])


def _stored(chair: Office, name: str) -> int:
    return len(chair.image.partition_table[bytes.fromhex(chair.image.topics[name].topic_id)].states)
