"""The controller on a metadata store that loses answers, and among rivals. Time is virtual."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.image import ClusterImage
from libs.cluster.memory.memory_store import LostAnswer, MemoryStore
from libs.cluster.records import ElectedController, InSync, PartitionState, Topic
from libs.cluster.store import Compare, Delete, Operation, Outcome, Put, TxnResult
from libs.rpc.contracts.controller import (
    AlterConfigs,
    AlterPartitions,
    AssignDirs,
    ConfigChange,
    ConfigResource,
    CreatePartitions,
    DeleteTopics,
    MorePartitions,
    NewIsr,
    NewTopic,
    TopicRef,
)
from libs.wire.errors import ErrorCode
from services.controller.administration.isr_changes import change_isrs
from services.controller.controller import NotElected
from services.controller.core.model.refusal import Refused
from services.controller.term.fenced_writer import Deposed, FencedWriter, OutcomeUnknown, WriteDenied
from services.controller.term.writes import Write
from tests.cluster.conftest import run_virtually
from tests.controller.images import led_by, storage, topic_id
from tests.controller.running_controller import RunningController, register, running_controller, story, vanish
from tests.support.polling import until

APPLIED, NOT_APPLIED = LostAnswer.APPLIED, LostAnswer.NOT_APPLIED


def leaders(image: ClusterImage, name: str) -> list[int]:
    states = image.partitions_of(bytes.fromhex(image.topics[name].topic_id))
    return [state.leader if state is not None else -2 for state in states]


@story
async def test_the_first_controller_names_the_cluster_and_the_next_keeps_the_name() -> None:
    store = MemoryStore()
    async with running_controller(store, defaults={"num.partitions": "3"}) as first:
        await first.elected()
        name = first.image.cluster_id
        assert len(name) == 22
        assert first.image.feature_level == 1
        assert first.image.overrides("broker", "") == {"num.partitions": "3"}
    async with running_controller(store.peer(), 2, defaults={"num.partitions": "9"}) as second:
        await second.elected()
        assert second.image.cluster_id == name
        assert second.image.overrides("broker", "") == {"num.partitions": "3"}


@story
async def test_a_topic_is_there_at_the_revision_of_the_reply() -> None:
    store = MemoryStore()
    await register(store, storage(1), storage(2))
    async with running_controller(store) as running:
        await running.elected()
        reply = await running.create(NewTopic("t", 4, 1, configs=(("retention.ms", "5"),)), NewTopic("a/b", 1, 1))
        assert [(r.name, r.error) for r in reply.topics] == [("t", 0), ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION)]
        assert running.image.revision >= reply.revision
        assert running.image.topics["t"].topic_id == reply.topics[0].topic_id.hex()
        assert sorted(leaders(running.image, "t")) == [1, 1, 2, 2]
        assert running.image.overrides("topic", "t") == {"retention.ms": "5"}


@story
async def test_a_validated_topic_is_not_created() -> None:
    store = MemoryStore()
    await register(store, storage(1))
    async with running_controller(store) as running:
        await running.elected()
        reply = await running.create(NewTopic("t", 4, 1), validate_only=True)
        assert (reply.topics[0].error, reply.topics[0].partitions) == (0, 4)
        assert running.image.topics == {}


@pytest.mark.parametrize("lost", [[APPLIED], [NOT_APPLIED], [NOT_APPLIED, APPLIED], [APPLIED, APPLIED, NOT_APPLIED]])
@pytest.mark.parametrize("partitions", [1, 150])
def test_a_creation_whose_answer_is_lost_is_settled_and_succeeds_once(lost: list[LostAnswer], partitions: int) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        await register(store, storage(1))
        async with running_controller(store) as running:
            await running.elected()
            store.lost_answers = list(lost)
            reply = await running.create(NewTopic("t", partitions, 1))
            assert (reply.topics[0].error, reply.topics[0].partitions) == (0, partitions)
            assert running.image.topics["t"].topic_id == reply.topics[0].topic_id.hex()
            assert leaders(running.image, "t") == [1] * partitions
            assert running.image.uncommitted_topic_ids() == []

    run_virtually(scenario())


@pytest.mark.parametrize("lost", [APPLIED, NOT_APPLIED])
def test_every_other_change_survives_a_lost_answer_too(lost: LostAnswer) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        await register(store, storage(1))
        async with running_controller(store) as running:
            await running.elected()
            await running.create(NewTopic("t", 1, 1), NewTopic("u", 1, 1))
            store.lost_answers = [lost]
            grown = await administer(running, "create_partitions", CreatePartitions((MorePartitions("t", 200),)))
            assert grown.topics[0].error == 0
            assert len(leaders(running.image, "t")) == 200
            store.lost_answers = [lost]
            change = ConfigResource(2, "t", (ConfigChange("retention.ms", 0, "5"),))
            altered = await administer(running, "alter_configs", AlterConfigs((change,)))
            assert altered.resources[0].error == 0
            assert running.image.overrides("topic", "t") == {"retention.ms": "5"}
            store.lost_answers = [lost]
            deleted = await administer(running, "delete_topics", DeleteTopics((TopicRef("t"), TopicRef("x"))))
            assert [r.error for r in deleted.topics] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
            assert list(running.image.topics) == ["u"]
            assert running.image.overrides("topic", "t") == {}
            assert len(running.image.partition_table) == 1

    run_virtually(scenario())


@pytest.mark.parametrize("lost", [APPLIED, NOT_APPLIED])
def test_a_group_whose_last_config_is_removed_leaves_nothing_in_the_store(lost: LostAnswer) -> None:
    name = "one/two é"

    async def scenario() -> None:
        store = MemoryStore()
        await register(store, storage(1))
        async with running_controller(store) as running:
            await running.elected()

            async def alter(*change: Any) -> None:
                store.lost_answers = [lost]
                request = AlterConfigs((ConfigResource(32, name, (ConfigChange(*change),)),))
                reply = await administer(running, "alter_configs", request)
                assert [(r.resource_type, r.name, r.error) for r in reply.resources] == [(32, name, 0)]

            session = "consumer.session.timeout.ms"
            await alter(session, 0, "50000")
            assert running.image.overrides("group", name) == {session: "50000"}
            await alter(session, 1, None)
            assert ("group", name) not in running.image.overrides_by_resource
            revision = running.image.revision
            await alter(session, 1, None)
            assert running.image.revision == revision, "what changes nothing is not written"

    run_virtually(scenario())


async def administer(running: RunningController, method: str, request: object) -> Any:
    return await running.controller.administer(lambda administration, term: getattr(administration, method)(term, request))


@story
async def test_many_topics_of_all_sizes_fit_their_transactions() -> None:
    store = MemoryStore()
    await register(store, storage(1), storage(2), storage(3))
    async with running_controller(store) as running:
        await running.elected()
        sizes = [1] * 150 + [59, 60, 61, 119, 120, 121, 500] + [2] * 50
        config = (("retention.ms", "5"),)
        reply = await running.create(*(NewTopic(f"t{n}", size, 1, configs=config) for n, size in enumerate(sizes)))
        assert {r.error for r in reply.topics} == {0}
        assert [len(leaders(running.image, f"t{n}")) for n in range(len(sizes))] == sizes
        assert -2 not in {leader for n in range(len(sizes)) for leader in leaders(running.image, f"t{n}")}
        refs = tuple(TopicRef(f"t{n}") for n in range(len(sizes)))
        deleted = await administer(running, "delete_topics", DeleteTopics(refs))
        assert {r.error for r in deleted.topics} == {0}
        assert dict(running.image.partition_table) == {}


@story
async def test_concurrent_requests_for_one_name_create_it_once() -> None:
    store = MemoryStore()
    await register(store, storage(1))
    async with running_controller(store) as running:
        await running.elected()
        replies = await asyncio.gather(*(running.create(NewTopic("t", 1, 1)) for _ in range(5)))
        errors = sorted(reply.topics[0].error for reply in replies)
        assert errors == [0] + [ErrorCode.TOPIC_ALREADY_EXISTS] * 4


@story
async def test_a_deposed_controllers_write_fails_however_sure_it_is() -> None:
    store = MemoryStore()
    await register(store, storage(1))
    async with running_controller(store) as running:
        await running.elected()
        term = running.controller.active_term()
        await store.peer().txn([], [Delete(keys.CONTROLLER), Put(keys.topic("other"), encode(Topic("other", "00" * 16, 0)))])
        writer = FencedWriter(store, term.leadership, give_up_after_s=5)
        with pytest.raises(Deposed):
            await writer.commit(Write((), (Put(keys.topic("t"), b"{}"),), Put(keys.topic("t"), b"{}")))
        assert await store.get(keys.topic("t")) is None
        assert term.leadership.lost.is_set()


class DenyingStore(MemoryStore):
    """As etcd does for a user who may not write, for so many of its next writes, after so many without an answer."""

    unanswered = denials = 0

    async def txn(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> TxnResult:
        if self.unanswered:
            self.unanswered -= 1
            return TxnResult(Outcome.UNKNOWN, 0)
        if self.denials:
            self.denials -= 1
            return TxnResult(Outcome.DENIED, 0)
        return await super().txn(compares, operations)


@story
async def test_a_write_that_etcd_denies_is_made_once_it_is_allowed_and_called_denied_otherwise() -> None:
    store = DenyingStore()
    await register(store, storage(1))
    async with running_controller(store) as running:
        await running.elected()
        store.denials = 2
        assert [topic.error for topic in (await running.create(NewTopic("t", 1, 1))).topics] == [0]
        store.denials = 1_000_000
        (topic,) = (await running.create(NewTopic("u", 1, 1))).topics
        assert (topic.error, "run the set-up of etcd's users" in (topic.message or "")) == (ErrorCode.REQUEST_TIMED_OUT, True)
        with pytest.raises(WriteDenied, match="run the set-up of etcd's users"):
            await running.controller.allocate_producer_ids()
        store.unanswered = 1
        (topic,) = (await running.create(NewTopic("v", 1, 1))).topics
        assert "refuses" not in (topic.message or ""), "the attempt that had no answer may have been applied"
        store.denials = 0


@story
async def test_a_controller_that_is_cut_off_is_succeeded_and_its_requests_are_refused() -> None:
    old_store = MemoryStore()
    new_store = old_store.peer()
    await register(new_store, storage(1))
    async with running_controller(old_store) as old, running_controller(new_store, 2) as new:
        await until(lambda: old.controller.elected or new.controller.elected)
        first, second = (old, new) if old.controller.elected else (new, old)
        assert isinstance(first.store, MemoryStore)
        first.store.unavailable = True
        await second.elected()
        assert not first.controller.elected
        with pytest.raises(NotElected):
            await first.create(NewTopic("t", 1, 1))
        assert (await second.create(NewTopic("t", 1, 1))).topics[0].error == 0
        first.store.unavailable = False
        await first.image_when(lambda image: "t" in image.topics)
        assert second.controller.elected


@story
async def test_a_store_that_stays_silent_leaves_the_creation_unsettled_and_says_so() -> None:
    store = MemoryStore()
    await register(store, storage(1))
    async with running_controller(store, write_timeout_s=1.0) as running:
        await running.elected()
        store.unavailable = True
        reply = await running.create(NewTopic("t", 1, 1))
        assert reply.topics[0].error == ErrorCode.REQUEST_TIMED_OUT
        store.unavailable = False
        await running.elected()
        assert (await running.create(NewTopic("t", 1, 1))).topics[0].error == 0


@story
async def test_a_crash_between_batches_leaves_no_half_topic_and_the_next_controller_sweeps_up() -> None:
    store = MemoryStore()
    await register(store, storage(1))
    async with running_controller(store) as running:
        await running.elected()
        half = [Put(keys.partition(topic_id(9), index), encode(led_by(1))) for index in range(60)]
        await running.create(NewTopic("t", 2, 1))
        grown = bytes.fromhex(running.image.topics["t"].topic_id)
        surplus = [Put(keys.partition(grown, index), encode(led_by(1))) for index in (2, 3)]
        await store.peer().txn([], [*half, *surplus])
        image = await running.image_when(lambda image: image.uncommitted_topic_ids() != [])
        assert list(image.topics) == ["t"]
        assert leaders(image, "t") == [1, 1]
    async with running_controller(store.peer(), 2) as successor:
        image = await successor.image_when(lambda image: image.uncommitted_topic_ids() == [])
        assert (await store.range(keys.partitions_of(topic_id(9)))).items == ()
        assert len((await store.range(keys.partitions_of(grown))).items) == 2
        assert leaders(image, "t") == [1, 1]


@story
async def test_nodes_that_die_and_restart_are_followed() -> None:
    store = MemoryStore()
    await register(store, storage(1), storage(2))
    async with running_controller(store) as running:
        await running.elected()
        await running.create(NewTopic("t", 200, 1))
        before = leaders(running.image, "t")
        await vanish(store, 1)
        image = await running.image_when(lambda image: -1 in leaders(image, "t") and 1 not in leaders(image, "t"))
        assert leaders(image, "t") == [-1 if leader == 1 else leader for leader in before]
        assert image.nodes.keys() == {1, 2}
        await register(store, storage(1, incarnation=2))
        image = await running.image_when(lambda image: leaders(image, "t") == before)
        for state in image.partitions_of(bytes.fromhex(image.topics["t"].topic_id)):
            assert state is not None
            if state.leader == 1:
                assert (state.leader_incarnation, state.leader_epoch, state.isr) == (2, 2, (InSync(1, 2),))
            else:
                assert (state.leader_incarnation, state.leader_epoch) == (1, 0)


@story
async def test_elections_survive_lost_answers() -> None:
    store = MemoryStore()
    await register(store, storage(1))
    async with running_controller(store) as running:
        await running.elected()
        await running.create(NewTopic("t", 130, 1))
        store.lost_answers = [APPLIED, NOT_APPLIED, APPLIED]
        await vanish(store.peer(), 1)
        await running.image_when(lambda image: set(leaders(image, "t")) == {-1})
        store.lost_answers = [NOT_APPLIED, APPLIED, NOT_APPLIED]
        await register(store.peer(), storage(1, incarnation=2))
        await running.image_when(lambda image: set(leaders(image, "t")) == {1})
        await until(lambda: store.lost_answers == [])


@story
async def test_a_node_that_changes_while_nobody_is_elected_is_settled_by_the_next() -> None:
    store = MemoryStore()
    await register(store, storage(1))
    async with running_controller(store) as running:
        await running.elected()
        await running.create(NewTopic("t", 1, 1))
    await register(store, storage(1, incarnation=2))
    async with running_controller(store.peer(), 2) as successor:
        image = await successor.image_when(lambda image: bool(image.topics) and leaders(image, "t") == [1])
        image = await successor.image_when(
            lambda image: (
                [s.leader_incarnation for s in image.partitions_of(bytes.fromhex(image.topics["t"].topic_id)) if s] == [2]
            )
        )
        assert image.nodes[1].log_dirs == ("d1",)


@story
async def test_producer_ids_are_never_handed_out_twice() -> None:
    store = MemoryStore()
    async with running_controller(store) as running:
        await running.elected()
        store.lost_answers = [APPLIED, NOT_APPLIED]
        blocks = [await running.controller.allocate_producer_ids() for _ in range(3)]
        blocks += await asyncio.gather(*(running.controller.allocate_producer_ids() for _ in range(5)))
    async with running_controller(store.peer(), 2) as successor:
        await successor.elected()
        blocks.append(await successor.controller.allocate_producer_ids())
    ids = [first for block in blocks for first in range(block.first, block.first + block.count)]
    assert len(set(ids)) == len(ids) == 9_000


@story
async def test_nobody_unelected_answers() -> None:
    store = MemoryStore()
    async with running_controller(store) as running, running_controller(store.peer(), 2) as standby:
        await running.elected()
        with pytest.raises(NotElected):
            await standby.create(NewTopic("t", 1, 1))
        with pytest.raises(NotElected):
            await standby.controller.allocate_producer_ids()


@story
async def test_a_node_tells_where_its_replicas_lie() -> None:
    store = MemoryStore()
    await register(store, storage(1, log_dirs=()))
    async with running_controller(store) as running:
        await running.elected()
        created = await running.create(NewTopic("t", 1, 1))
        t = created.topics[0].topic_id
        await register(store, storage(1, log_dirs=("a", "b")))
        await running.image_when(lambda image: image.members("storage")[1].log_dirs != ())
        reply = await administer(running, "assign_dirs", AssignDirs(1, 1, ((t, 0, "b1"), (t, 7, "b1"), (b"x" * 16, 0, "b1"))))
        state = running.image.partition(t, 0)
        assert running.image.revision >= reply.revision
        assert state is not None
        assert (state.replicas[0].log_dir_id, state.partition_epoch, state.leader_epoch) == ("b1", 1, 0)
        await administer(running, "assign_dirs", AssignDirs(1, 1, ((t, 0, "elsewhere"),)))
        assert running.image.partition(t, 0) is state
        with pytest.raises(Refused, match="not registered with incarnation 2"):
            await administer(running, "assign_dirs", AssignDirs(1, 2, ((t, 0, "a1"),)))


@story
async def test_a_replica_that_may_have_been_let_into_the_isr_is_refused_by_a_step_of_the_state() -> None:
    """Its leader forgets it once it is refused; the write that was to let it in must then come too late."""
    store = MemoryStore()
    await register(store, storage(1), storage(2))
    async with running_controller(store, write_timeout_s=1.0) as running:
        await running.elected()
        t = (await running.create(NewTopic("t", 1, 2))).topics[0].topic_id
        await vanish(store.peer(), 2)
        await running.image_when(lambda image: leaders(image, "t") == [1])
        await register(store, storage(2))
        state = await until_alone(running, t)
        expected = AlterPartitions(1, 1, (NewIsr(t, 0, state.leader_epoch, state.partition_epoch, ((1, 1), (2, 1))),))
        store.unavailable = True
        with pytest.raises(OutcomeUnknown):
            await running.controller.administer(
                lambda administration, term: change_isrs(frozenset, administration, term, expected)
            )
        store.unavailable = False
        await vanish(store.peer(), 2)
        await running.image_when(lambda image: 2 not in image.members("storage"))
        reply = await running.controller.administer(
            lambda administration, term: change_isrs(frozenset, administration, term, expected)
        )
        assert reply.partitions[0].error == ErrorCode.INELIGIBLE_REPLICA
        assert reply.partitions[0].partition_epoch == state.partition_epoch + 1
        assert running.image.partition(t, 0) == replace(state, partition_epoch=state.partition_epoch + 1)
        # Nothing is in doubt any more.
        again = replace(expected.partitions[0], partition_epoch=state.partition_epoch + 1)
        sent = AlterPartitions(1, 1, (again,))
        reply = await running.controller.administer(
            lambda administration, term: change_isrs(frozenset, administration, term, sent)
        )
        assert reply.partitions[0].partition_epoch == state.partition_epoch + 1


async def until_alone(running: RunningController, topic: bytes) -> PartitionState:
    def alone() -> bool:
        state = running.image.partition(topic, 0)
        return state is not None and state.isr == (InSync(1, 1),) and 2 in running.image.members("storage")

    await until(alone)
    result = running.image.partition(topic, 0)
    assert result is not None
    return result


@story
async def test_an_empty_log_in_a_new_directory_does_not_pass_for_the_lost_one() -> None:
    store = MemoryStore()
    await register(store, storage(1, log_dirs=("a",)))
    async with running_controller(store) as running:
        await running.elected()
        t = (await running.create(NewTopic("t", 1, 1))).topics[0].topic_id
        await register(store, storage(1, incarnation=2, log_dirs=("b",)))
        await running.image_when(lambda image: leaders(image, "t") == [-1])
        await administer(running, "assign_dirs", AssignDirs(1, 2, ((t, 0, "b1"),)))
        assert leaders(running.image, "t") == [-1]
        await register(store, storage(1, incarnation=3, log_dirs=("a",)))
        await running.image_when(lambda image: leaders(image, "t") == [1])


@story
async def test_an_image_that_does_not_follow_stops_decisions() -> None:
    store = MemoryStore()
    await register(store, storage(1))
    async with running_controller(store, write_timeout_s=1.0) as running:
        await running.elected()
        store.watch_delay_s = 5.0
        reply = await running.create(NewTopic("t", 1, 1), *(NewTopic(f"u{n}", 60, 1) for n in range(3)))
        assert {r.error for r in reply.topics} == {ErrorCode.REQUEST_TIMED_OUT}
        assert (await store.get(keys.topic("u2"))) is None
        store.watch_delay_s = 0.0
        again = await running.image_when(lambda image: "t" in image.topics)
        assert "u2" not in again.topics


@story
async def test_readiness_names_the_active_controller() -> None:
    store = MemoryStore()
    async with running_controller(store) as running, running_controller(store.peer(), 2) as standby:
        assert running.controller.ready()[0] is False
        await running.elected()
        await until(lambda: standby.controller.ready() == (True, "standby of controller 1"))
        assert running.controller.ready() == (True, "the active controller")
        shown: Any = standby.controller.debug()["balancing"]()
        assert (shown["elected"], shown["active_controller"]) == (False, 1)
        assert "planned" not in shown, "only the active controller plans"
        standby.controller.watch_denials(lambda node_id: node_id == 1)
        assert standby.controller.ready() == (False, "there is no active controller")
        assert running.controller.ready() == (True, "the active controller")


@story
async def test_a_restarted_controller_does_not_wait_for_the_lease_of_its_dead_process() -> None:
    store = MemoryStore()
    lease = await store.grant_lease(3600)
    dead = encode(ElectedController(1, 99))
    await store.txn([], [Put(keys.CONTROLLER, dead, lease)])
    async with running_controller(store) as running:
        await running.elected()
        assert asyncio.get_running_loop().time() < 1


@story
async def test_a_controller_deletes_neither_the_election_of_another_nor_its_own_successors() -> None:
    for incumbent in (ElectedController(2, 1), ElectedController(1, 101)):
        store = MemoryStore()
        lease = await store.grant_lease(3600)
        await store.txn([], [Put(keys.CONTROLLER, encode(incumbent), lease)])
        async with running_controller(store) as running:
            await asyncio.sleep(60)
            assert not running.controller.elected
            assert running.image.controller == incumbent
            assert running.controller.ready()[0] == (incumbent.node_id == 2)
