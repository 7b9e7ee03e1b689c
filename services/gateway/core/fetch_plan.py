"""The plan of a Fetch: the node to send it to, the partitions to request there, and the answers that need no request. No I/O.

A broker id's port serves the partitions that the broker leads. It serves consumers that name their rack from partitions that the
broker follows, while it is in the ISR (KIP-392). A follower outside the ISR may be cut off, and its reader would stand still. The
bootstrap port, which is no broker, stands for the leader of the first partition that has one.
"""

from collections.abc import Mapping
from typing import Final

from libs.rpc.contracts.storage import Fetched
from libs.wire.errors import ErrorCode
from libs.wire.messages.fetch import FetchRequest, FetchTopic
from services.gateway.core.addresses import BOOTSTRAP
from services.gateway.core.routing import Routes, TopicRoute

NOT_LEADER_OR_FOLLOWER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
ISOLATION_LEVELS = (0, 1)
NOTHING_DENIED: Final[Mapping[str | bytes, int]] = {}


class FetchPlan:
    """`results` are by slot: the partition's place in the request. `requested` are the slots that `node_id` is asked for."""

    __slots__ = ("follows", "leaderless", "node_id", "requested", "results")

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.results: list[Fetched] = []
        self.requested: list[tuple[int, list[object]]] = []
        self.follows = False
        """True if the node follows some of the requested partitions."""
        self.leaderless = False
        """True if there is nothing to request, and a leader may appear soon."""

    def asks_the_same(self, other: "FetchPlan") -> bool:
        """Whether the other plan sends the same request to the same node."""
        return (
            self.node_id == other.node_id
            and self.follows == other.follows
            and [slot for slot, _ in self.requested] == [slot for slot, _ in other.requested]
        )


def make_plan(
    routes: Routes, request: FetchRequest, broker_id: int, denied: Mapping[str | bytes, int] = NOTHING_DENIED
) -> FetchPlan:
    """The plan of a request to that broker id. `denied`: the errors of topics that the client may not read, by id or name."""
    plan = FetchPlan(broker_id)
    results, requested = plan.results, plan.requested
    request_error = _request_error(request)
    leaderless_count = 0
    for topic in request.topics:
        route, unknown_error = _route(routes, topic)
        topic_error = request_error or denied.get(topic.topic_id or topic.name or "", 0)
        for partition in topic.partitions:
            partition_route = route.partition(partition.partition_index) if route is not None else None
            if topic_error:
                results.append(Fetched(topic_error))
                continue
            if route is None or partition_route is None:
                results.append(Fetched(unknown_error))
                continue
            if plan.node_id == BOOTSTRAP and partition_route.leader >= 0:
                plan.node_id = partition_route.leader
            results.append(
                Fetched(NOT_LEADER_OR_FOLLOWER, leader=partition_route.leader, leader_epoch=partition_route.leader_epoch)
            )
            if partition_route.leader != plan.node_id or partition_route.leader < 0:
                if not (request.rack_id and _follows(routes, route, partition.partition_index, plan.node_id)):
                    leaderless_count += partition_route.leader < 0
                    continue
                plan.follows = True
            # The layout of FetchPartition in contracts/storage.py.
            requested.append((len(results) - 1, [route.topic_id, *partition]))
    plan.leaderless = 0 < leaderless_count == len(results)
    return plan


def _request_error(request: FetchRequest) -> int:
    """The error of every partition of the request; 0: none."""
    if request.replica_id >= 0:
        return int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return 0 if request.isolation_level in ISOLATION_LEVELS else int(ErrorCode.INVALID_REQUEST)


def _route(routes: Routes, topic: FetchTopic) -> tuple[TopicRoute | None, int]:
    """The topic's route, and the error for a topic or partition that does not exist."""
    if topic.topic_id is not None:
        route = routes.topic_by_id(topic.topic_id)
        unknown_error = ErrorCode.UNKNOWN_TOPIC_ID if route is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return route, int(unknown_error)
    return routes.topic(topic.name or ""), int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _follows(routes: Routes, topic: TopicRoute, index: int, node_id: int) -> bool:
    state = routes.image.partition(topic.topic_id, index)
    return state is not None and any(member.node_id == node_id for member in state.isr)
