import signal

import pytest

from services.local.cluster_shape import NODE_ROLES
from tests.support.cluster_harness import LocalCluster


def test_a_process_can_be_killed_and_comes_back_ready():
    with LocalCluster(storage=1) as cluster:
        before = cluster.pid("storage-1")
        cluster.restart("storage-1", signal.SIGKILL)
        assert cluster.pid("storage-1") != before
        assert cluster.memory_bytes("storage-1") > 0


def test_a_node_is_found_by_the_names_of_the_services_in_it():
    given = {"storage-1": {"PENSTOCK_RACK": "a"}, "gateway-1": {"PENSTOCK_SHORTCUTS": "off"}}
    cluster = LocalCluster(roles=NODE_ROLES, environment_of=given)
    try:
        assert cluster.admin_address("storage-1") == cluster.admin_address("gateway-1") == cluster.admin_address("node-1")
        assert cluster.data_directory("node-1") == cluster.data_directory("storage-1")
        assert cluster.settings_of("node-1") == given["storage-1"] | given["gateway-1"]
    finally:
        cluster.close(check=False)


def test_a_process_that_is_asked_to_stop_is_asked_once():
    with LocalCluster(storage=1) as cluster:
        cluster.restart("storage-1", signal.SIGTERM)
        assert 'event="stopping"' in cluster.log("storage-1")
        assert 'event="aborting"' not in cluster.log("storage-1")


def test_a_traceback_in_a_log_fails_the_test_that_ran_the_cluster():
    cluster = LocalCluster(storage=1)
    cluster.up()
    with open(cluster.run.log_file("gateway-1"), "a", encoding="utf-8") as log:
        log.write("Traceback (most recent call last):\n  ValueError: planted\n")
    with pytest.raises(AssertionError, match="planted"):
        cluster.close()


def test_a_traceback_that_a_test_expects_does_not_fail_it():
    with (
        LocalCluster(storage=1, expected_complaints="planted") as cluster,
        open(cluster.run.log_file("gateway-1"), "a", encoding="utf-8") as log,
    ):
        log.write("Traceback (most recent call last):\n  ValueError: planted\n")
