"""Members of the consumer protocol (KIP-848). Each version of a scenario has a group of its own."""

from collections.abc import Callable
from datetime import timedelta

from tests.compat.differential.scenario import UNKNOWN_ID, Fields, Scenario, Step, World
from tests.compat.differential.scenarios.classic_groups import group, member_of, steps

BEAT, DESCRIBE, COMMIT = "consumer_group_heartbeat", "consumer_group_describe", "offset_commit"
LEAVES, LEAVES_FOR_A_WHILE = -1, -2
NAMES_ITSELF = (1,)
NOWHERE = ["nowhere"]

Ask = Callable[[World], Fields]


def beat(who: int | str, epoch: int, owned: tuple[int, ...] | None = None, **how: object) -> Ask:
    """A heartbeat that says nothing new. `owned`: partitions of the scenario's topic."""

    def ask(world: World) -> Fields:
        has = None
        if owned is not None:
            has = [{"topic_id": world.system.topic_ids.get(world.topic, UNKNOWN_ID), "partitions": list(owned)}] if owned else []
        return {
            "group_id": group(world),
            "member_id": member_of(world, who),
            "member_epoch": epoch,
            "rebalance_timeout": -1,
            "topic_partitions": has,
            **how,
        }

    return ask


def join(who: str = "", **how: object) -> Ask:
    """From version 1 on members name themselves: "m" if no other name is given."""

    def ask(world: World) -> Fields:
        named = who or ("m" if world.version in NAMES_ITSELF else "")
        about = {"subscribed_topic_names": [world.topic], "server_assignor": "range", **how}
        return beat(named, 0, (), **{"rebalance_timeout": 60_000, **about})(world)

    return ask


def describe(world: World) -> Fields:
    return {"group_ids": [group(world)], "include_authorized_operations": False}


def commit(who: int | str, epoch: int) -> Ask:
    def ask(world: World) -> Fields:
        partition = {"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": -1, "committed_metadata": "m"}
        return {
            "group_id": group(world),
            "generation_id_or_member_epoch": epoch,
            "member_id": member_of(world, who),
            "retention_time": timedelta(milliseconds=-1),
            "topics": [{**world.names(), "partitions": [partition]}],
        }

    return ask


def joined(world: World) -> list[Step]:
    return [Step(BEAT, min(world.version, 1), join("m"))]


def by_version(world: World) -> list[Step]:
    """The join of each version. In version 0 the coordinator gives the member id."""
    return [Step(BEAT, world.version, join())]


settled = steps((BEAT, 1, join("m")), (BEAT, 1, beat("m", 1, (0, 1))))
two = steps((BEAT, 1, join("m")), (BEAT, 1, beat("m", 1, (0, 1))), (BEAT, 1, join("n")))
static = steps((BEAT, 1, join("m", instance_id="i")), (BEAT, 1, beat("m", 1, (0, 1), instance_id="i")))
away = steps((BEAT, 1, join("m", instance_id="i")), (BEAT, 1, beat("m", LEAVES_FOR_A_WHILE, instance_id="i")))
gone = steps((BEAT, 1, join("m")), (BEAT, 1, beat("m", LEAVES)))


def classic(world: World) -> list[Step]:
    fields = {
        "group_id": group(world),
        "session_timeout": 30_000,
        "rebalance_timeout": 60_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"s"}],
    }
    return [Step("join_group", 3, fields)]


JOINS = (
    Scenario("a join", BEAT, join(), partitions=2),
    Scenario("a join without a member id", BEAT, beat("", 0, (), rebalance_timeout=60_000, subscribed_topic_names=NOWHERE)),
    Scenario("a join to no topic that is there", BEAT, join(subscribed_topic_names=NOWHERE)),
    Scenario("a join to no topic", BEAT, join(subscribed_topic_names=[])),
    Scenario("a join to no topics at all", BEAT, join(subscribed_topic_names=None)),
    Scenario("a join without a rebalance timeout", BEAT, join(rebalance_timeout=-1)),
    Scenario("a join with partitions", BEAT, join(topic_partitions=[{"topic_id": UNKNOWN_ID, "partitions": [0]}])),
    Scenario("a join that does not say what it owns", BEAT, join(topic_partitions=None)),
    Scenario("no group id", BEAT, join(group_id="")),
    Scenario("a group id of spaces", BEAT, join(group_id="  ")),
    Scenario("an instance of spaces", BEAT, join(instance_id="  ")),
    Scenario("a rack of spaces", BEAT, join(rack_id="  ")),
    Scenario("a member id of spaces", BEAT, join("  ")),
    Scenario("an assignor of spaces", BEAT, join(server_assignor="  ")),
    Scenario("a group id of what Java takes for spaces", BEAT, join(group_id="\t\0\n")),
    Scenario("a group id of what Java does not take for spaces", BEAT, join(group_id="\u3000"), (1,)),
    Scenario("an instance without a name", BEAT, join(instance_id="")),
    Scenario("a rack without a name", BEAT, join(rack_id="")),
    Scenario("a rack", BEAT, join(rack_id="r"), partitions=2),
    Scenario("an assignor that is none", BEAT, join(server_assignor="odd")),
    Scenario("an assignor without a name", BEAT, join(server_assignor="")),
    Scenario("no assignor", BEAT, join(server_assignor=None), partitions=2),
    Scenario("a topic that is named twice", BEAT, lambda w: join(subscribed_topic_names=[w.topic] * 2)(w), partitions=2),
    Scenario("a topic without a name", BEAT, join(subscribed_topic_names=[""])),
    Scenario("a bad expression", BEAT, join(subscribed_topic_names=None, subscribed_topic_regex="("), (1,)),
    Scenario("what java has and RE2 has not", BEAT, join(subscribed_topic_names=None, subscribed_topic_regex="(?=a)"), (1,)),
    Scenario(
        "an expression that matches nothing", BEAT, join(subscribed_topic_names=None, subscribed_topic_regex="nothing"), (1,)
    ),
    Scenario("an empty expression", BEAT, join(subscribed_topic_names=None, subscribed_topic_regex=""), (1,)),
    Scenario("an epoch that is none", BEAT, beat("m", -3)),
    Scenario("a classic group", BEAT, join(), before=classic),
    Scenario("joined again", BEAT, join("m"), partitions=2, before=settled),
    Scenario("a second member", BEAT, join("n"), partitions=2, before=settled),
    Scenario("a third member", BEAT, join("o"), partitions=2, before=two),
    Scenario("a static member", BEAT, join(instance_id="i"), partitions=2),
    Scenario("an instance that somebody is", BEAT, join("n", instance_id="i"), partitions=2, before=static),
    Scenario("a static member that comes back", BEAT, join("n", instance_id="i"), partitions=2, before=away),
)

LATER = (
    Scenario("of nobody", BEAT, beat("m", 1)),
    Scenario("of somebody else", BEAT, beat("somebody", 1), partitions=2, before=settled),
    Scenario("without a member id", BEAT, beat("", 1), partitions=2, before=settled),
    Scenario("of a member", BEAT, beat(0, 1), partitions=2, before=by_version),
    Scenario("of a member that owns its partitions", BEAT, beat("m", 1, (0, 1)), partitions=2, before=settled),
    Scenario("of a member that says all", BEAT, join("m", member_epoch=1), partitions=2, before=settled),
    Scenario("an epoch to come", BEAT, beat("m", 2), partitions=2, before=settled),
    Scenario("another topic", BEAT, beat("m", 1, subscribed_topic_names=NOWHERE), partitions=2, before=settled),
    Scenario("another assignor", BEAT, beat("m", 1, server_assignor="uniform"), partitions=2, before=settled),
    Scenario("an assignor that is none, later", BEAT, beat("m", 1, server_assignor="odd"), partitions=2, before=settled),
    Scenario("a bad expression, later", BEAT, beat("m", 1, subscribed_topic_regex="("), (1,), partitions=2, before=settled),
    Scenario("told to give up", BEAT, beat("m", 1, (0, 1)), partitions=2, before=two),
    Scenario("waiting for others", BEAT, beat("n", 2), partitions=2, before=two),
    Scenario(
        "given up",
        BEAT,
        beat("n", 2, ()),
        partitions=2,
        before=lambda w: [*two(w), Step(BEAT, 1, beat("m", 1, (0, 1))), Step(BEAT, 1, beat("m", 1, (0,)))],
    ),
    Scenario(
        "the epoch before",
        BEAT,
        beat("m", 1, (0,)),
        partitions=2,
        before=lambda w: [*two(w), Step(BEAT, 1, beat("m", 1, (0, 1))), Step(BEAT, 1, beat("m", 1, (0,)))],
    ),
    Scenario(
        "the epoch before, with what is another's",
        BEAT,
        beat("m", 1, (0, 1)),
        partitions=2,
        before=lambda w: [*two(w), Step(BEAT, 1, beat("m", 1, (0, 1))), Step(BEAT, 1, beat("m", 1, (0,)))],
    ),
    Scenario("a leave", BEAT, beat("m", LEAVES), partitions=2, before=settled),
    Scenario("a leave of somebody else", BEAT, beat("n", LEAVES), partitions=2, before=settled),
    Scenario("a leave without a member id", BEAT, beat("", LEAVES), partitions=2, before=settled),
    Scenario("a leave for a while of one that is not static", BEAT, beat("m", LEAVES_FOR_A_WHILE), partitions=2, before=settled),
    Scenario("a leave for a while", BEAT, beat("m", LEAVES_FOR_A_WHILE, instance_id="i"), partitions=2, before=static),
    Scenario("a leave for ever of a static member", BEAT, beat("m", LEAVES, instance_id="i"), partitions=2, before=static),
    Scenario("of a static member", BEAT, beat("m", 1, instance_id="i"), partitions=2, before=static),
    Scenario("somebody else's instance", BEAT, beat("n", 1, instance_id="i"), partitions=2, before=static),
    Scenario("an instance that nobody is", BEAT, beat("m", 1, instance_id="other"), partitions=2, before=static),
    Scenario("of a member that left", BEAT, beat("m", 1), partitions=2, before=gone),
    Scenario("of a static member that is away", BEAT, beat("m", 1, instance_id="i"), partitions=2, before=away),
)

SEEN = (
    Scenario("a member", DESCRIBE, describe, partitions=2, before=settled),
    Scenario("two members", DESCRIBE, describe, partitions=2, before=two),
    Scenario("a static member", DESCRIBE, describe, partitions=2, before=static),
    Scenario("a static member that is away", DESCRIBE, describe, partitions=2, before=away),
    Scenario("a group that is empty", DESCRIBE, describe, partitions=2, before=gone),
    Scenario("a classic group", DESCRIBE, describe, before=classic),
    Scenario("of a member of a consumer group", COMMIT, commit("m", 1), range(9, 11), partitions=2, before=settled),
    Scenario("of an epoch to come", COMMIT, commit("m", 2), range(9, 11), partitions=2, before=settled),
    Scenario("of an old version, of a consumer group", COMMIT, commit("m", 1), range(2, 9), partitions=2, before=settled),
    Scenario("of somebody else, of a consumer group", COMMIT, commit("n", 1), range(9, 11), partitions=2, before=settled),
    Scenario("of nobody, of a consumer group", COMMIT, commit("", -1), partitions=2, before=settled),
)

SCENARIOS = (*JOINS, *LATER, *SEEN)
