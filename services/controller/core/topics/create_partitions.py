"""CreatePartitions: the topics that grow, and the places of their new partitions."""

from collections import Counter
from dataclasses import replace

from libs.cluster.image import ClusterImage
from libs.cluster.records import PartitionState, Topic
from libs.cluster.topic_names import INTERNAL_TOPICS
from libs.lean_dataclass import dataclass
from libs.rpc.contracts.controller import CreatePartitions, MorePartitions, TopicResult
from libs.wire.errors import ErrorCode
from services.controller.core.model.refusal import Refused
from services.controller.core.topics.mutation_quotas import Charge, uncharged
from services.controller.core.topics.replica_assignment import Assigner, Limits
from services.controller.core.topics.topics import Randomness


@dataclass(frozen=True, slots=True)
class PlannedGrowth:
    """A topic that may grow. `added` are the states from index `before.partitions` on. `after` is written with or after the last
    of them, and commits."""

    before: Topic
    after: Topic
    added: tuple[PartitionState, ...]
    result: TopicResult


@dataclass(frozen=True, slots=True)
class Growth:
    """The decision about one request. Write `planned`, then answer its results together with `refused`, in the order
    of `names`."""

    names: tuple[str, ...]
    planned: tuple[PlannedGrowth, ...]
    refused: tuple[TopicResult, ...]


def create_partitions(
    image: ClusterImage, request: CreatePartitions, random: Randomness, limits: Limits, charge: Charge = uncharged
) -> Growth:
    mentions = Counter(topic.name for topic in request.topics)
    assigner = Assigner(image, limits, start=random.randrange(1 << 16))
    left = limits.partitions_per_request
    planned: dict[str, PlannedGrowth] = {}
    refused: dict[str, TopicResult] = {}
    for requested in request.topics:
        try:
            if mentions[requested.name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            growth = _grow(image, requested, assigner, left, charge)
        except Refused as refusal:
            refused[requested.name] = TopicResult(requested.name, refusal.error, refusal.message)
            continue
        left -= len(growth.added)
        planned[requested.name] = growth
    return Growth(tuple(mentions), tuple(planned.values()), tuple(refused.values()))


def _grow(image: ClusterImage, requested: MorePartitions, assigner: Assigner, left: int, charge: Charge) -> PlannedGrowth:
    topic = image.topics.get(requested.name)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    if topic.name in INTERNAL_TOPICS:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"The number of partitions of {topic.name} cannot be changed.")
    if requested.count == topic.partitions:
        raise Refused(ErrorCode.INVALID_PARTITIONS, f"Topic already has {topic.partitions} partition(s).")
    if requested.count < topic.partitions:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {topic.partitions} partition(s); {requested.count} would not be an increase.",
        )
    more = requested.count - topic.partitions
    if more > left:
        raise Refused(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    if requested.assignments is not None and len(requested.assignments) != more:
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {more} additional partition(s), but only {len(requested.assignments)} assignment(s) were "
            "specified.",
        )
    charge(topic.name, more)  # as in Kafka, assigned brokers are checked afterwards
    first = image.partition(bytes.fromhex(topic.topic_id), 0)
    factor = first.replication_factor if first is not None else 1
    by_hand = requested.assignments
    added = assigner.placed(more, factor) if by_hand is None else assigner.assigned(by_hand, factor)
    result = TopicResult(topic.name, ErrorCode.NONE, None, bytes.fromhex(topic.topic_id), requested.count, factor)
    return PlannedGrowth(topic, replace(topic, partitions=requested.count), added, result)
