"""Whom a Fetch is to ask for which of its partitions, and the answers that need no asking. No I/O.

A broker id's port serves what that broker leads and, to consumers that name their rack, what it follows while it is in the ISR
(KIP-392): whoever left the ISR may be cut off, and its reader would stand still. The bootstrap port, which is no broker, stands
for the leader of the first partition that has one.
"""

from libs.rpc.contracts.storage import Fetched
from libs.wire.errors import ErrorCode
from libs.wire.messages.fetch import FetchRequest, FetchTopic
from services.gateway.core.routing import Routes, TopicRoute
from services.gateway.state import BOOTSTRAP

NOT_LEADER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
ISOLATION_LEVELS = (0, 1)


class FetchPlan:
    """`results` by slot, the partition's place in the request. `asked`: slots to ask `node_id` for, as the contract has them."""

    __slots__ = ("asked", "follows", "leaderless", "node_id", "results")

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.results: list[Fetched] = []
        self.asked: list[tuple[int, list[object]]] = []
        self.follows = False
        """Some of what is asked for, it follows."""
        self.leaderless = False
        """Nothing to ask, and somebody may lead soon."""

    def is_as(self, other: "FetchPlan") -> bool:
        """Whether the same is asked of the same node."""
        return (
            self.node_id == other.node_id
            and self.follows == other.follows
            and [slot for slot, _ in self.asked] == [slot for slot, _ in other.asked]
        )


def plan(routes: Routes, request: FetchRequest, broker_id: int) -> FetchPlan:
    made = FetchPlan(broker_id)
    results, asked = made.results, made.asked
    for_all = _refuse_all(request)
    nobody = 0
    for topic in request.topics:
        route, unknown = _route(routes, topic)
        for partition in topic.partitions:
            known = route.partition(partition.partition_index) if route is not None else None
            if for_all:
                results.append(Fetched(for_all))
                continue
            if route is None or known is None:
                results.append(Fetched(unknown))
                continue
            if made.node_id == BOOTSTRAP and known.leader >= 0:
                made.node_id = known.leader
            results.append(Fetched(NOT_LEADER, leader=known.leader, leader_epoch=known.leader_epoch))
            if known.leader != made.node_id or known.leader < 0:
                if not (request.rack_id and _follows(routes, route, partition.partition_index, made.node_id)):
                    nobody += known.leader < 0
                    continue
                made.follows = True
            # As contracts/storage.py has FetchPartition.
            asked.append((len(results) - 1, [route.topic_id, *partition]))
    made.leaderless = 0 < nobody == len(results)
    return made


def _refuse_all(request: FetchRequest) -> int:
    if request.replica_id >= 0:
        return int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return 0 if request.isolation_level in ISOLATION_LEVELS else int(ErrorCode.INVALID_REQUEST)


def _route(routes: Routes, topic: FetchTopic) -> tuple[TopicRoute | None, int]:
    """The topic's route, and the error for what is not there."""
    if topic.topic_id is not None:
        route = routes.topic_by_id(topic.topic_id)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if route is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return route, int(unknown)
    return routes.topic(topic.name or ""), int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _follows(routes: Routes, topic: TopicRoute, index: int, node_id: int) -> bool:
    state = routes.image.partition(topic.topic_id, index)
    return state is not None and any(member.node_id == node_id for member in state.isr)
