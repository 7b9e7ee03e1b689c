"""The fenced brokers, which are registered and not alive, and for how long Metadata still names them. No I/O.

Rule (docs/rules.md): a broker id stays in Metadata while its address is served. The address of a dead broker is this gateway's,
and lives. librdkafka (2.10 and later) closes its connection to a broker that Metadata no longer names. What was sent there and
not answered it sends again, after its backoff of 100 ms.

The cluster image has no times. So each gateway counts from the moment when it saw the broker's member vanish. A gateway that
starts later counts from its first image: it must not leave out a broker that the other gateways still name.
"""

from collections.abc import Mapping

from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE, Member, NodeRecord


class FencedBrokers:
    """Times are the monotonic clock's, in seconds. `follow` takes each image before a request is answered from it."""

    def __init__(self, listed_s_max: float) -> None:
        self._listed_s_max = listed_s_max
        self._registered: Mapping[int, NodeRecord] = {}
        self._alive: Mapping[int, Member] = {}
        self._fenced_since: dict[int, float] = {}

    def follow(self, image: ClusterImage, now_s: float) -> None:
        """Notes who is fenced by now. Most images change neither nodes nor members, and cost nothing."""
        registered, alive = image.nodes, image.members(STORAGE)
        if registered is self._registered and alive is self._alive:
            return
        self._registered, self._alive = registered, alive
        fenced = registered.keys() - alive.keys()
        self._fenced_since = {node_id: self._fenced_since.get(node_id, now_s) for node_id in fenced}

    def is_listed(self, node_id: int, now_s: float) -> bool:
        """Whether that broker is fenced, and has not been for too long. An unregistered broker is listed no more."""
        since = self._fenced_since.get(node_id)
        return since is not None and now_s - since < self._listed_s_max
