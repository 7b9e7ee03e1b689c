"""A cluster that a later version raised to a level which this one does not support: no process of this version starts in it."""

import asyncio
from collections.abc import Iterator

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.etcd.etcd_store import EtcdStore
from libs.cluster.features import FEATURE_LEVEL
from libs.cluster.store import Outcome, Put
from services.local.errors import LauncherError
from tests.support.cluster_harness import LocalCluster

NEWER = FEATURE_LEVEL + 1
ROLES = ("controller", "storage", "group_coordinator", "transaction_coordinator", "quota_manager", "gateway")
REFUSAL = "does not support the level that the cluster was raised to: "


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(storage=1) as running:
        yield running


def set_level(cluster: LocalCluster, key: str, level: int) -> None:
    """As the controller of a later version does."""

    async def put() -> None:
        store = EtcdStore([cluster.etcd_endpoint])
        assert (await store.txn([], [Put(key, encode(level))])).outcome is Outcome.OK
        await store.close()

    asyncio.run(put())


def refusals(cluster: LocalCluster, name: str) -> list[str]:
    return [line for line in cluster.log(name).splitlines() if REFUSAL in line]


@pytest.mark.parametrize("role", ROLES)
def test_a_process_refuses_the_clusters_newer_level_in_one_line_and_runs_once_it_is_lowered(
    cluster: LocalCluster, role: str
) -> None:
    name = f"{role}-1"
    set_level(cluster, keys.FEATURE_LEVEL, NEWER)
    with pytest.raises(LauncherError, match=f"{name} ended while starting"):
        cluster.restart(name)
    (line,) = refusals(cluster, name)
    assert f"feature level {NEWER} (supported: up to {FEATURE_LEVEL}). Start the version that raised it, or a later one" in line
    set_level(cluster, keys.FEATURE_LEVEL, FEATURE_LEVEL)
    cluster.start(name)
    cluster.wait_ready([name])


def test_a_feature_that_this_version_does_not_know_is_named(cluster: LocalCluster) -> None:
    before = len(refusals(cluster, "gateway-1"))
    set_level(cluster, keys.feature("share.version"), 1)
    with pytest.raises(LauncherError, match="gateway-1 ended while starting"):
        cluster.restart("gateway-1")
    (line,) = refusals(cluster, "gateway-1")[before:]
    assert "share.version level 1 (supported: none)" in line
    set_level(cluster, keys.feature("share.version"), 0)
    cluster.start("gateway-1")
    cluster.wait_ready(["gateway-1"])
