"""An etcd server for the tests that need a real one."""

from tests.cluster.conftest import etcd_binary, own_etcd, shared_etcd

__all__ = ["etcd_binary", "own_etcd", "shared_etcd"]
