"""Late transactions: one whose answer was lost may arrive long after it was sent again, and must not be applied twice."""

from collections.abc import Sequence

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.memory.memory_keyspace import Keyspace
from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.store import Compare, Operation, Outcome, Put, TxnResult
from libs.rpc.contracts.controller import (
    AlterClientQuotas,
    AlterConfigs,
    ConfigChange,
    ConfigResource,
    CreatePartitions,
    DeleteTopics,
    EntityQuotas,
    MorePartitions,
    NewTopic,
    QuotaChange,
    TopicRef,
    UnregisterBroker,
)
from services.controller.administration.node_registrations import unregister_node
from tests.controller.images import led_by, storage, topic_id
from tests.controller.running_controller import RunningController, register, running_controller, story, vanish
from tests.support.polling import until

TOPIC, BROKER, GROUP = 2, 4, 32
SET, REMOVE = 0, 1


class Recording(MemoryStore):
    """A store that keeps all transactions, so that they can be sent once more."""

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


async def delete(running: RunningController, *names: str) -> None:
    request = DeleteTopics(tuple(TopicRef(name) for name in names))
    reply = await running.controller.administer(lambda administration, term: administration.delete_topics(term, request))
    assert [result.error for result in reply.topics] == [0] * len(names)


async def grow(running: RunningController, name: str, count: int) -> None:
    request = CreatePartitions((MorePartitions(name, count),))
    reply = await running.controller.administer(lambda administration, term: administration.create_partitions(term, request))
    assert [result.error for result in reply.topics] == [0]


async def alter(running: RunningController, *resources: ConfigResource) -> None:
    request = AlterConfigs(resources)
    reply = await running.controller.administer(lambda administration, term: administration.alter_configs(term, request))
    assert [result.error for result in reply.resources] == [0] * len(resources)


async def limit(running: RunningController, rate: float | None) -> None:
    request = AlterClientQuotas((EntityQuotas((("user", "u"),), (QuotaChange("producer_byte_rate", rate),)),))
    reply = await running.controller.administer(lambda administration, term: administration.alter_client_quotas(term, request))
    assert [result.error for result in reply.entities] == [0]


def config(kind: int, name: str, key: str, value: str | None) -> ConfigResource:
    return ConfigResource(kind, name, (ConfigChange(key, SET if value is not None else REMOVE, value),))


@story
async def test_a_creation_that_lands_again_after_the_deletion_creates_nothing() -> None:
    """Its topic would be back with its id and its epochs, in which others led before."""
    store = Recording(Keyspace())
    await register(store.peer(), storage(1))
    async with running_controller(store) as running:
        await running.elected()
        before = len(store.asked)
        await running.create(NewTopic("t", 3, 1))
        store.asked = store.asked[before:]
        await delete(running, "t")
        assert set(await store.everything_again()) == {Outcome.CONFLICT}
        assert (await store.range(keys.TOPICS)).items == ()
        assert (await store.range(keys.PARTITIONS)).items == ()


@story
async def test_nothing_that_the_controller_wrote_can_be_applied_again() -> None:
    store = Recording(Keyspace())
    await register(store.peer(), storage(1), storage(2), storage(3))
    async with running_controller(store, defaults={"num.partitions": "3"}) as running:
        await running.elected()
        await until(lambda: len(running.image.nodes) == 3)
        store.nothing_holds_again()
        await running.create(NewTopic("small", 2, 2, configs=(("retention.ms", "5"),)), NewTopic("other", 1, 1))
        await running.create(NewTopic("large", 130, 1, configs=(("retention.ms", "5"),)), NewTopic("kept", 1, 1))
        await grow(running, "other", 2)
        await grow(running, "small", 150)
        store.nothing_holds_again()
        for value in ("7", None, "8"):
            # One by one: what is written together is compared together.
            await alter(running, config(TOPIC, "kept", "retention.ms", value))
            await alter(running, config(BROKER, "", "log.retention.ms", value))
            await alter(running, config(BROKER, "2", "leader.replication.throttled.rate", value))
            await alter(running, config(GROUP, "g", "consumer.session.timeout.ms", value and "50000"))
            await limit(running, float(value) if value else None)
            store.nothing_holds_again()
        await delete(running, "small")
        store.nothing_holds_again()
        await delete(running, "other", "large")
        store.nothing_holds_again()
        await running.create(NewTopic("small", 2, 2))
        await vanish(store.peer(), 3)
        await until(lambda: 3 not in running.image.members("storage"))
        await running.controller.administer(lambda a, term: unregister_node(a, term, UnregisterBroker(3)))
        assert 3 not in running.image.nodes
        await running.controller.allocate_producer_ids()
        store.nothing_holds_again()
        kept = bytes.fromhex(running.image.topics["kept"].topic_id)
        await abandon(store, (topic_id(77), 0), (topic_id(77), 1), (topic_id(78), 5), (kept, 1))
        await until(lambda: not running.image.uncommitted_topic_ids() and _stored(running, "kept") == 1)
        store.nothing_holds_again()
        revision = store.keyspace.revision
        assert set(await store.everything_again()) == {Outcome.CONFLICT}
        assert store.keyspace.revision == revision


@story
async def test_configs_that_are_removed_in_one_request_with_others_that_are_set_are_all_altered() -> None:
    """Names this long have transactions of their own, each of which meets the deletions before it."""
    store = MemoryStore()
    async with running_controller(store) as running:
        await running.elected()
        names = [f"{'g' * 1100}{number}" for number in range(16)]
        await alter(running, *(config(GROUP, name, "consumer.session.timeout.ms", "50000") for name in names[::2]))
        values = {name: None if number % 2 == 0 else "50000" for number, name in enumerate(names)}
        await alter(running, *(config(GROUP, name, "consumer.session.timeout.ms", value) for name, value in values.items()))
        assert {name for kind, name in running.image.overrides_by_resource if kind == "group"} == set(names[1::2])


async def abandon(store: MemoryStore, *partitions: tuple[bytes, int]) -> None:
    """The remains of creations and growths that were not finished."""
    await store.peer().txn([], [Put(keys.partition(*partition), encode(led_by(1))) for partition in partitions])


def _stored(running: RunningController, name: str) -> int:
    return len(running.image.partition_table[bytes.fromhex(running.image.topics[name].topic_id)].states)
