"""Nodes that operators unregister: which ones they may, and what the metadata forgets of them."""

from dataclasses import replace

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.image import ClusterImage
from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.records import ConfigOverrides, InSync, PartitionState, Replica
from libs.cluster.store import Put
from libs.rpc.contracts.controller import NewTopic, UnregisterBroker
from libs.wire.errors import ErrorCode
from services.controller.administration.node_registrations import unregister_node
from services.controller.core.administration.node_registrations import unregister
from services.controller.core.model.refusal import Refused
from services.controller.core.partitions.partition_states import follows_the_table
from services.controller.term import writes
from services.controller.term.fenced_writer import Conflict
from tests.cluster.conftest import run_virtually
from tests.controller.images import image_of, storage
from tests.controller.running_controller import register, running_controller, vanish

HERE, THERE = (Replica(n, f"d{n}") for n in (1, 2))


def two(*isr: int) -> PartitionState:
    return PartitionState((HERE, THERE), isr[0], 1, 3, 7, tuple(InSync(n, 1) for n in isr))


def refusal(image: ClusterImage, node_id: int) -> Refused:
    with pytest.raises(Refused) as refused:
        unregister(image, node_id)
    return refused.value


def test_a_node_that_never_registered_is_refused_with_kafkas_code_and_words() -> None:
    refused = refusal(image_of(storage(1)), 7)
    assert refused.error == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert refused.message == "Broker ID 7 is not currently registered"


def test_a_live_node_is_refused_since_it_would_register_again() -> None:
    assert refusal(image_of(storage(1)), 1).error == ErrorCode.INVALID_REQUEST


def test_replicas_of_a_dead_node_forget_where_they_lay() -> None:
    image = image_of(storage(1), topics={"t": [two(1), replace(two(1), replicas=(HERE,))]}, gone=(2,))
    ((_, index, after),) = unregister(image, 2)
    assert (index, after.replicas, after.partition_epoch) == (0, (HERE, Replica(2, "")), 8)
    assert follows_the_table(two(1), after)


def test_one_of_the_last_in_sync_is_not_forgotten_so_that_no_empty_log_passes_for_its_own() -> None:
    last = replace(two(2), leader=-1)
    assert unregister(image_of(storage(1), topics={"t": [last]}, gone=(2,)), 2) == []


def test_a_machine_that_takes_the_id_copies_what_others_have() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        await register(store, storage(1), storage(2))
        async with running_controller(store) as running:
            await running.elected()
            t = (await running.create(NewTopic("t", 1, 2))).topics[0].topic_id
            await vanish(store.peer(), 2)
            await running.image_when(lambda image: 2 not in image.members("storage"))
            request = UnregisterBroker(2)
            reply = await running.controller.administer(lambda a, term: unregister_node(a, term, request))
            assert running.image.revision >= reply.revision
            assert set(running.image.nodes) == {1}
            state = running.image.partition(t, 0)
            assert state is not None
            assert Replica(2, "") in state.replicas
            assert state.isr == (InSync(1, 1),)
            with pytest.raises(Refused, match="not currently registered"):
                await running.controller.administer(lambda a, term: unregister_node(a, term, request))
            await register(store, storage(2, incarnation=9, log_dirs=("new",)))
            await running.image_when(lambda image: image.nodes.get(2) is not None)

    run_virtually(scenario())


@pytest.mark.parametrize("holds", [False, True])
@pytest.mark.parametrize("others", [{}, {"log.retention.ms": "5"}])
def test_an_empty_decommissioned_node_takes_that_config_with_it(holds: bool, others: dict[str, str]) -> None:
    reported = {"decommission": "true", **others}

    async def scenario() -> None:
        store = MemoryStore()
        await register(store, storage(1), storage(2))
        async with running_controller(store) as running:
            await running.elected()
            if holds:
                await running.create(NewTopic("t", 1, 2))
            await vanish(store.peer(), 2)
            await store.peer().txn([], [Put(keys.config("broker", "2"), encode(ConfigOverrides(reported)))])
            await running.image_when(lambda image: 2 not in image.members("storage") and bool(image.overrides("broker", "2")))
            await running.controller.administer(lambda a, term: unregister_node(a, term, UnregisterBroker(2)))
            assert 2 not in running.image.nodes
            assert running.image.overrides("broker", "2") == (reported if holds else others)

    run_virtually(scenario())


def test_a_node_that_registers_meanwhile_keeps_its_record() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        async with running_controller(store) as running:
            await running.elected()
            await register(store.peer(), storage(2))
            await running.image_when(lambda image: 2 in image.nodes)
            late = writes.unregistering(running.image, 2)
            with pytest.raises(Conflict):
                await running.controller.administer(lambda _, term: term.commit(late))
            assert await store.get(keys.node(2)) is not None

    run_virtually(scenario())
