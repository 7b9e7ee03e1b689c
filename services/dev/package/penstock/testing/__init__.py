"""A cluster for a test, which is ready within a fraction of a second.

    with penstock.testing.Cluster() as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})

pytest has the fixtures `penstock_cluster`, for one test, and `penstock_session_cluster`, for all tests of a session.
"""

from .cluster import Cluster, ClusterFailed

__all__ = ["Cluster", "ClusterFailed"]
