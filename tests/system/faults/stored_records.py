"""Records as the active controller stores them, for a test that no client can ask for them."""

import asyncio
from collections.abc import Mapping

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.etcd.etcd_store import EtcdStore
from libs.cluster.records import ClientQuotas, QuotaEntity
from libs.cluster.store import Delete, Outcome, Put
from tests.support.cluster_harness import LocalCluster


def store_record(cluster: LocalCluster, key: str, record: object | None) -> None:
    """None: it is removed."""

    async def write() -> None:
        store = EtcdStore([cluster.etcd_endpoint])
        try:
            done = await store.txn([], [Delete(key) if record is None else Put(key, encode(record))])
            assert done.outcome is Outcome.OK
        finally:
            await store.close()

    asyncio.run(write())


def set_quota(cluster: LocalCluster, values: Mapping[str, float] | None, *, client_id: str = "tenant") -> None:
    """Of that client id. None: none."""
    key = keys.client_quotas(QuotaEntity(client_id=client_id))
    store_record(cluster, key, None if values is None else ClientQuotas(dict(values)))
