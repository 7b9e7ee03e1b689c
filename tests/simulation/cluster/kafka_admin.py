"""Requests of operators: who leads, and where replicas live."""

from collections.abc import Mapping, Sequence

from libs.wire.api_keys import ApiKey
from libs.wire.messages import alter_partition_reassignments, elect_leaders
from tests.simulation.cluster.kafka_client import Link, Partition, call

ELECT_LEADERS_VERSION, REASSIGNMENTS_VERSION = 2, 0
PREFERRED, UNCLEAN = 0, 1


async def elect(link: Link, kind: int, partitions: Sequence[Partition], timeout_s: float) -> dict[Partition, int]:
    """The error of each."""
    topics = [elect_leaders.TopicPartitions(topic, [index]) for topic, index in partitions]
    request = elect_leaders.ElectLeadersRequest(kind, topics, int(timeout_s * 1000))
    answer = await call(
        link,
        ApiKey.ELECT_LEADERS,
        ELECT_LEADERS_VERSION,
        elect_leaders.write_request,
        request,
        elect_leaders.read_response,
        timeout_s + 1,
    )
    return {
        (topic.topic, each.partition_id): each.error_code
        for topic in answer.replica_election_results
        for each in topic.partition_result
    }


async def reassign(link: Link, wanted: Mapping[Partition, Sequence[int] | None], timeout_s: float) -> dict[Partition, int]:
    """The error of each. None instead of replicas cancels what is under way."""
    topics = [
        alter_partition_reassignments.ReassignableTopic(
            topic, [alter_partition_reassignments.ReassignablePartition(index, None if replicas is None else list(replicas))]
        )
        for (topic, index), replicas in wanted.items()
    ]
    request = alter_partition_reassignments.AlterPartitionReassignmentsRequest(int(timeout_s * 1000), topics=topics)
    answer = await call(
        link,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        REASSIGNMENTS_VERSION,
        alter_partition_reassignments.write_request,
        request,
        alter_partition_reassignments.read_response,
        timeout_s + 1,
    )
    return {(topic.name, each.partition_index): each.error_code for topic in answer.responses for each in topic.partitions}
