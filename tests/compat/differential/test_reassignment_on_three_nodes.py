"""Replicas move, and leaders are elected, among three brokers of Apache Kafka as among three nodes of Penstock."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from libs.wire.errors import ErrorCode
from tests.compat.differential.systems import KAFKA, System
from tests.compat.differential.three_nodes import Side, Story, differing, run_story
from tests.compat.kafka.broker import QUICK
from tests.compat.kafka.trio import KafkaTrio
from tests.support.cluster_harness import LocalCluster
from tests.support.requirements import require

PREFERRED, UNCLEAN = 0, 1


@dataclass
class Threes:
    trio: KafkaTrio
    cluster: LocalCluster
    kafka: System
    penstock: System


@pytest.fixture(scope="module")
def threes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Threes]:
    require("java", "kafka", "etcd")
    with (
        KafkaTrio(tmp_path_factory.mktemp("kafka"), options=QUICK) as trio,
        LocalCluster(storage=3) as cluster,
    ):
        port = int(trio.bootstrap.split(",")[0].split(":")[1])
        yield Threes(trio, cluster, System(KAFKA, port), System("Penstock", cluster.shape.port + 1))


@pytest.fixture(scope="module")
def without_3(threes: Threes) -> Threes:
    """Both clusters with node 3 dead for the rest of this module: replicas that are to go there never arrive."""
    for side in (Side(system, "on-node-3-alone") for system in (threes.kafka, threes.penstock)):
        side.place([3])
    threes.trio.kill(3)
    threes.cluster.kill("storage-3")
    for side in (Side(system, "on-node-3-alone") for system in (threes.kafka, threes.penstock)):
        side.wait_for(lambda found: found[0][0] < 0)
    return threes


def added(side: Side) -> None:
    side.place([1])
    side.alter([1, 2])
    side.done()
    side.alter([1, 2, 3], allow=False)
    side.alter([2, 3], allow=False)
    side.done()


def removed(side: Side) -> None:
    side.place([1, 2, 3], [1, 2, 3])
    side.alter_all((0, [1]), (1, [3, 2]))
    side.done()


def moved(side: Side) -> None:
    side.place([1, 2], [1, 2])
    side.alter_all((0, [3]), (1, [3, 1]))
    side.done()


def of_different_factors(side: Side) -> None:
    side.place([1], [2])
    side.alter([1, 3, 2])
    side.done()


def moved_to_where_it_is(side: Side) -> None:
    side.place([1, 2])
    side.alter([1, 2])
    side.listed()
    side.alter([2, 1])
    side.done()
    side.elect(PREFERRED, 0)
    side.wait_for(lambda found: found[0][0] == 2)
    side.elect(PREFERRED, 0)
    side.elect(UNCLEAN, 0)
    side.layout()


def refused(side: Side) -> None:
    side.place([1, 2])
    for target in ([], [1, 1], [1, 9], [9, 9], [-1], [1, -2], [1, 2, 1, 9], None):
        side.alter(target)
    for partition in (1, -1, 2**31 - 1):
        side.alter([1], partition=partition)
        side.alter(None, partition=partition)
        side.elect(PREFERRED, partition)
    for topic in ("not-there", "", "no/name"):
        side.alter([1], topic=topic)
        side.alter(None, topic=topic)
        side.elect(UNCLEAN, 0, topic=topic)
    side.alter([1], allow=False)
    side.alter([], allow=False)
    side.alter([9], allow=False)
    side.alter_all()
    side.elect(PREFERRED)
    side.elect(PREFERRED, 0, 0)
    side.elect(7, 0)
    side.done()


def named_twice(side: Side) -> None:
    side.place([1, 2])
    side.alter_all((0, [1]), (0, [2, 1]))
    side.done()


def to_a_dead_node(side: Side) -> None:
    side.place([1])
    side.alter([3])
    side.listed()
    side.alter([3])
    side.listed()
    side.alter([1, 3], allow=False)
    side.alter([3], allow=False)
    side.elect(PREFERRED, 0)
    side.layout()
    side.alter(None)
    side.alter(None)
    side.done()


def the_only_live_one_removed(side: Side) -> None:
    side.place([1, 2])
    side.alter([2, 3])
    side.layout(1, 2)
    side.listed()
    side.alter([3], allow=False)
    side.alter([3])
    side.listed()
    side.alter(None)
    side.done()


def added_after_all(side: Side) -> None:
    side.place([1])
    side.alter([2, 3])
    side.layout(1, 2)
    side.listed()
    side.alter([2])
    side.done()


def back_to_where_it_was(side: Side) -> None:
    side.place([1])
    side.alter([2, 3])
    side.layout(1, 2)
    side.alter([1])
    side.done()


def cancelled_with_some_in_sync(side: Side) -> None:
    side.place([1])
    side.alter([3, 2])
    side.layout(1, 2)
    side.listed()
    side.alter(None)
    side.done()


def dead_one_dropped(side: Side) -> None:
    side.place([1, 2])
    side.alter([1, 2, 3])
    side.listed()
    side.alter([1, 2])
    side.done()


def the_same_target_in_another_order(side: Side) -> None:
    side.place([1])
    side.alter([2, 3])
    side.layout(1, 2)
    side.alter([3, 2])
    side.listed()
    side.alter([3, 2])
    side.listed()
    side.alter(None)
    side.done()


def asked_to_stay_after_all(side: Side) -> None:
    side.place([1])
    side.alter([3])
    side.alter([1, 3])
    side.listed()
    side.alter(None)
    side.done()


def another_target_midway(side: Side) -> None:
    side.place([1])
    side.alter([2, 3])
    side.layout(1, 2)
    side.alter([1, 3])
    side.listed()
    side.alter(None)
    side.done()


def a_target_that_keeps_a_copying_one(side: Side) -> None:
    side.place([1])
    side.alter([3])
    side.alter([2, 3])
    side.layout(1, 2)
    side.listed()
    side.alter(None)
    side.done(1)


def unregistered(side: Side) -> None:
    side.place([1], [2])
    side.alter([1, 3])
    side.unregister(3)
    side.listed()
    side.alter([1, 3])
    side.alter([3], partition=1)
    side.alter(None)
    side.unregister(3)
    side.unregister(2)


def elected_without_anybody(side: Side) -> None:
    side.elect(PREFERRED, 0, topic="on-node-3-alone")
    side.elect(UNCLEAN, 0, topic="on-node-3-alone")


@pytest.mark.parametrize("story", [added, removed, moved, of_different_factors, moved_to_where_it_is, refused, named_twice])
def test_among_three_that_live_the_answers_are_kafkas(threes: Threes, story: Story) -> None:
    kafka, penstock = run_story(story, threes.kafka, threes.penstock)
    assert differing(kafka, penstock) == {}


@pytest.mark.parametrize(
    "story",
    [
        to_a_dead_node,
        the_only_live_one_removed,
        added_after_all,
        back_to_where_it_was,
        cancelled_with_some_in_sync,
        dead_one_dropped,
        the_same_target_in_another_order,
        elected_without_anybody,
    ],
)
def test_with_one_of_three_dead_the_answers_are_kafkas(without_3: Threes, story: Story) -> None:
    kafka, penstock = run_story(story, without_3.kafka, without_3.penstock)
    assert differing(kafka, penstock) == {}


@pytest.mark.parametrize(
    ("story", "difference"),
    [
        (asked_to_stay_after_all, {"2 listed removing_replicas": ([1], [])}),
        (
            another_target_midway,
            {
                "3 listed adding_replicas": ([2, 3], [3]),
                "3 listed removing_replicas": ([2], []),
                "3 listed replicas": ([1, 3, 2], [1, 3]),
            },
        ),
        (
            a_target_that_keeps_a_copying_one,
            {"3 listed adding_replicas": ([2], [2, 3]), "5 layout 0": ((1, [3, 1], [1]), (1, [1], [1]))},
        ),
    ],
)
def test_another_target_midway_starts_from_the_original_replicas(
    without_3: Threes, story: Story, difference: dict[str, tuple[object, object]]
) -> None:
    """The difference reassign-another-target."""
    kafka, penstock = run_story(story, without_3.kafka, without_3.penstock)
    assert differing(kafka, penstock) == difference


def test_unregistering_a_broker_is_as_in_kafka_except_for_a_live_one(without_3: Threes) -> None:
    """The difference unregister-alive. The last test: Kafka loses a broker by it."""
    kafka, penstock = run_story(unregistered, without_3.kafka, without_3.penstock)
    assert differing(kafka, penstock) == {"7 unregister 2 error_code": (0, ErrorCode.INVALID_REQUEST)}
