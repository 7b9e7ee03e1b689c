"""What a group has committed, asked by librdkafka's admin client."""

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from tests.clients.admin import REQUEST_S, Admin
from tests.clients.groups.member import Partition


def committed_offsets(admin: Admin, group: str) -> dict[Partition, int]:
    """Of all partitions that have a committed offset."""
    asked = admin.client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)], request_timeout=REQUEST_S)
    found = asked[group].result().topic_partitions
    return {(where.topic, where.partition): where.offset for where in found if where.offset >= 0}


def commit_offsets(admin: Admin, group: str, offsets: dict[Partition, int]) -> None:
    """As a tool does: nobody may be in the group."""
    named = [TopicPartition(*where, offset) for where, offset in offsets.items()]
    asked = [ConsumerGroupTopicPartitions(group, named)]
    admin.client.alter_consumer_group_offsets(asked, request_timeout=REQUEST_S)[group].result()
