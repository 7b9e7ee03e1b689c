"""Reports of nodes about the directories of their replicas."""

from dataclasses import replace

from libs.cluster.records import STORAGE
from libs.rpc.contracts.controller import AssignDirs
from services.controller.core.directories.replica_directories import assign_dirs
from services.controller.core.model.replica_health import ReplicaHealth, health_of, live_nodes
from services.controller.core.partitions.partition_reconciler import NO_LEADER, reconcile
from tests.controller.images import image_of, led_by, storage, topic_id

T = topic_id(1)


def test_a_log_that_is_found_elsewhere_when_its_directory_is_gone_is_taken_for_a_new_one() -> None:
    image = image_of(storage(1, log_dirs=("a",)), topics={"t": [led_by(1, log_dir_id="b1")]})
    assert assign_dirs(image, AssignDirs(1, 1, ((T, 0, "a1"),))) == []


def test_a_log_that_was_not_in_the_directory_that_is_gone_is_not_displaced() -> None:
    """It was to move there."""
    state = led_by(1, log_dir_id="b1")
    image = image_of(storage(1, log_dirs=("a",)), topics={"t": [state, state]})
    live = live_nodes(image.members(STORAGE))
    assert health_of(state, state.isr[0], live, synced=True) is ReplicaHealth.DISPLACED
    ((_, index, changed),) = assign_dirs(image, AssignDirs(1, 1, ((T, 0, "a1"), (T, 1, "a1")), verified=((T, 0),)))
    assert (index, changed) == (0, replace(led_by(1, log_dir_id="a1"), partition_epoch=1))
    assert health_of(changed, changed.isr[0], live, synced=True) is ReplicaHealth.STEADY
    leaderless = replace(changed, leader=NO_LEADER, leader_incarnation=-1)
    assert reconcile(leaderless, live, synced=True).leader == 1


def test_a_log_that_is_to_move_to_a_directory_that_is_gone_stays_where_it_is() -> None:
    image = image_of(storage(1, log_dirs=("a",)), topics={"t": [led_by(1, log_dir_id="a1")]})
    assert assign_dirs(image, AssignDirs(1, 1, ((T, 0, "b1"),))) == []
