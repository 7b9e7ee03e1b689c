"""Creation and deletion of topics, and the answers for refused ones.

Error codes and messages are Kafka's (KRaft's ReplicationControlManager), since tools show them. Nothing here writes: a decision
says what to write, and the shell answers success only once it is written.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

from libs.cluster.configs.definitions import ConfigError, validate_together, validate_topic
from libs.cluster.configs.resolve import effective_broker_bool, effective_broker_int, is_set
from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE, PartitionState, Topic
from libs.cluster.topic_names import INTERNAL_TOPICS
from libs.lean_dataclass import dataclass
from libs.rpc.contracts.controller import CreateTopics, DeleteTopics, NewTopic, TopicRef, TopicResult
from libs.wire.errors import ErrorCode
from services.controller.core.model.refusal import Refused
from services.controller.core.reassignment.decommissioning import leaving
from services.controller.core.topics.internal_topic_configs import kept_synced
from services.controller.core.topics.mutation_quotas import Charge, uncharged
from services.controller.core.topics.replica_assignment import Assigner, Limits
from services.controller.core.topics.topic_names import METADATA_TOPIC, collision_key, name_problem, shown

NO_ID = b"\0" * 16


class Randomness(Protocol):
    """What a seeded `random.Random` gives."""

    def randbytes(self, n: int, /) -> bytes: ...

    def randrange(self, stop: int, /) -> int: ...


@dataclass(frozen=True, slots=True)
class PlannedTopic:
    """A topic that may be created. Its record is written with or after the last of its partitions, and commits."""

    topic: Topic
    partitions: tuple[PartitionState, ...]
    configs: dict[str, str]
    result: TopicResult

    @property
    def topic_id(self) -> bytes:
        return bytes.fromhex(self.topic.topic_id)


@dataclass(frozen=True, slots=True)
class Creation:
    """The decision about one request. Write `planned`, then answer its results together with `refused`, in the order
    of `names`."""

    names: tuple[str, ...]
    planned: tuple[PlannedTopic, ...]
    refused: tuple[TopicResult, ...]


def create_topics(
    image: ClusterImage, request: CreateTopics, random: Randomness, limits: Limits, charge: Charge = uncharged
) -> Creation:
    mentions = Counter(topic.name for topic in request.topics)
    default_partitions = effective_broker_int(image, "num.partitions")
    default_factor = default_replication_factor(image)
    by_name = {topic.name: topic for topic in request.topics}
    requested = sum(_partition_count(topic, default_partitions) for topic in request.topics if mentions[topic.name] == 1)
    assigner = Assigner(image, limits, start=random.randrange(1 << 16))
    taken = {collision_key(name): name for name in image.topics}
    planned: list[PlannedTopic] = []
    refused: list[TopicResult] = []
    for name, topic in by_name.items():
        try:
            if mentions[name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            if requested > limits.partitions_per_request:
                raise Refused(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
            _check_name(image, name, taken)
            configs = _checked_configs(topic)
            partitions = _partitions(topic, assigner, default_partitions, default_factor)
            charge(name, len(partitions))
        except Refused as refusal:
            refused.append(TopicResult(name, refusal.error, refusal.message))
            continue
        taken[collision_key(name)] = name
        topic_id = new_topic_id(random, lambda matches: matches in image.topics_by_id)
        result = TopicResult(name, ErrorCode.NONE, None, topic_id, len(partitions), len(partitions[0].replicas))
        record = Topic(name, topic_id.hex(), len(partitions), name in INTERNAL_TOPICS)
        planned.append(PlannedTopic(record, partitions, configs, result))
    return Creation(tuple(by_name), tuple(planned), tuple(refused))


def new_topic_id(random: Randomness, taken: Callable[[bytes], bool]) -> bytes:
    """A new topic id: a version 4 UUID. Kafka reserves some ids, and avoids those whose base64 form begins with a dash."""
    while True:
        raw = bytearray(random.randbytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        topic_id = bytes(raw)
        if topic_id[0] >> 2 != 62 and not taken(topic_id):  # 62 is "-" in URL-safe base64
            return topic_id


def default_replication_factor(image: ClusterImage, config: str = "default.replication.factor") -> int:
    """The broker config's value if somebody set it. Otherwise its default, or the number of live nodes that stay, if that is
    lower."""
    configured = effective_broker_int(image, config)
    if is_set(image, config):
        return configured
    return max(1, min(configured, len(image.members(STORAGE).keys() - leaving(image))))


def _partition_count(topic: NewTopic, default: int) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return default if topic.partitions == -1 else max(0, topic.partitions)


def _check_name(image: ClusterImage, name: str, taken: dict[str, str]) -> None:
    if (problem := name_problem(name)) is not None:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    if name == METADATA_TOPIC:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {METADATA_TOPIC} is prohibited.")
    if name in image.topics:
        raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    if (other := taken.get(collision_key(name))) is not None:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")


def _checked_configs(topic: NewTopic) -> dict[str, str]:
    values: dict[str, str] = {}
    for name, value in topic.configs:
        if value is None:
            raise Refused(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {shown(name)}")
        try:
            validate_topic(name, value)
        except ConfigError as error:
            raise Refused(ErrorCode.INVALID_CONFIG, str(error)) from None
        values[name] = value
    try:
        validate_together(values)
        return kept_synced(topic.name, values)
    except ConfigError as error:
        raise Refused(ErrorCode.INVALID_CONFIG, str(error)) from None


def _partitions(topic: NewTopic, assigner: Assigner, default_partitions: int, default_factor: int) -> tuple[PartitionState, ...]:
    if topic.assignments:
        if topic.replication_factor != -1:
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but replication factor was not set to -1.",
            )
        if topic.partitions != -1:
            raise Refused(
                ErrorCode.INVALID_REQUEST, "A manual partition assignment was specified, but numPartitions was not set to -1."
            )
        return assigner.assigned(_in_order(topic.assignments), replication_factor=None)
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0, or -1 to use the default value."
        )
    if topic.partitions < -1 or topic.partitions == 0:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    factor = default_factor if topic.replication_factor == -1 else topic.replication_factor
    return assigner.placed(_partition_count(topic, default_partitions), factor)


def _in_order(assignments: Sequence[tuple[int, tuple[int, ...]]]) -> list[tuple[int, ...]]:
    by_index: dict[int, tuple[int, ...]] = {}
    for index, replicas in assignments:
        if index in by_index:
            raise Refused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Found multiple manual partition assignments for partition {index}"
            )
        by_index[index] = replicas
    if sorted(by_index) != list(range(len(by_index))):
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence")
    return [by_index[index] for index in range(len(by_index))]


@dataclass(frozen=True, slots=True)
class Deletion:
    """The decision about one request. Delete `topics`, then answer `results`, in the order of the request. For `topics` these
    hold success."""

    topics: tuple[Topic, ...]
    results: tuple[TopicResult, ...]


def delete_topics(image: ClusterImage, request: DeleteTopics, charge: Charge = uncharged) -> Deletion:
    enabled = effective_broker_bool(image, "delete.topic.enable")
    matches = [_find(image, ref) for ref in request.topics]
    mentions = Counter(topic.topic_id for topic in matches if isinstance(topic, Topic))
    unknown = Counter(ref for ref, topic in zip(request.topics, matches, strict=True) if not isinstance(topic, Topic))
    topics: list[Topic] = []
    results: dict[tuple[str | None, bytes], TopicResult] = {}
    for ref, topic in zip(request.topics, matches, strict=True):
        key = (ref.name, ref.topic_id)
        name = ref.name or ""
        if not enabled:
            results[key] = TopicResult(name, ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.", ref.topic_id)
        elif isinstance(topic, Topic):
            topic_id = bytes.fromhex(topic.topic_id)
            if mentions[topic.topic_id] > 1:
                results[key] = TopicResult(name, ErrorCode.INVALID_REQUEST, f"Duplicate topic {_ref_kind(ref)}.", ref.topic_id)
                continue
            try:
                charge(topic.topic_id, topic.partitions)
            except Refused as refusal:
                results[key] = TopicResult(topic.name, refusal.error, refusal.message, topic_id)
            else:
                topics.append(topic)
                results[key] = TopicResult(topic.name, ErrorCode.NONE, None, topic_id)
        elif unknown[ref] > 1 and topic.error != ErrorCode.INVALID_REQUEST:
            results[key] = TopicResult(name, ErrorCode.INVALID_REQUEST, f"Duplicate topic {_ref_kind(ref)}.", ref.topic_id)
        else:
            results[key] = TopicResult(name, topic.error, topic.message, ref.topic_id)
    return Deletion(tuple(topics), tuple(results.values()))


def _ref_kind(ref: TopicRef) -> str:
    return "id" if ref.name is None else "name"


def _find(image: ClusterImage, ref: TopicRef) -> Topic | Refused:
    if ref.name is None and ref.topic_id == NO_ID:
        return Refused(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if ref.name is None:
        by_id = image.topics_by_id.get(ref.topic_id)
        return by_id or Refused(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    if ref.topic_id != NO_ID:
        return Refused(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    by_name = image.topics.get(ref.name)
    return by_name or Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
