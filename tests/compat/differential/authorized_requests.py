"""Requests of every API that is authorized, and the ACLs that each needs, in Kafka's names of operations and resources."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.compat.differential.batches import TRANSACTIONAL, batch
from tests.compat.differential.scenario import Fields, World
from tests.compat.differential.scenarios.configs import BROKER, BROKER_LOGGER
from tests.compat.differential.scenarios.fetch import fetch
from tests.compat.differential.scenarios.produce import produce

TOPIC, GROUP, CLUSTER, TRANSACTION = 2, 3, 4, 5
READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = 3, 4, 5, 6, 7, 8
CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = 9, 10, 11, 12

GROUP_NAME, TRANSACTIONAL_ID, NEW = "authorized", "authorized", "authorized-new"

Acl = tuple[int, int, str]
"""Operation, resource type, resource. "" is the case's own topic."""


@dataclass(frozen=True)
class Case:
    """`acls` together allow it. `alone`: each of them alone does."""

    api: str
    version: int
    ask: Callable[[World], Fields]
    acls: tuple[Acl, ...] = ()
    alone: bool = False
    what: str = ""

    @property
    def slug(self) -> str:
        return f"{self.api} {self.version} {self.what}".strip().replace(" ", "-")

    def grants(self) -> Iterator[tuple[Acl, ...]]:
        """Nothing, all of them, and all but each one, or each one alone."""
        yield ()
        if self.alone:
            yield from ((acl,) for acl in self.acls)
            return
        yield self.acls
        if len(self.acls) > 1:
            yield from (tuple(other for other in self.acls if other != acl) for acl in self.acls)


def cluster(operation: int) -> tuple[Acl, ...]:
    return ((operation, CLUSTER, "kafka-cluster"),)


def topic(operation: int, name: str = "") -> tuple[Acl, ...]:
    return ((operation, TOPIC, name),)


def group(operation: int) -> tuple[Acl, ...]:
    return ((operation, GROUP, GROUP_NAME),)


def transaction(operation: int) -> tuple[Acl, ...]:
    return ((operation, TRANSACTION, TRANSACTIONAL_ID),)


def fixed(fields: Fields) -> Callable[[World], Fields]:
    return lambda world: fields


def _metadata(world: World, **more: Any) -> Fields:
    names = [{"topic_id": bytes(16), "name": world.topic}, {"topic_id": bytes(16), "name": NEW}]
    return {"topics": names, "allow_auto_topic_creation": False, **more}


def _offsets(world: World) -> Fields:
    partitions = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]
    return {
        "group_id": GROUP_NAME,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{**world.names(), "partitions": partitions}],
    }


def _fetched(world: World, *, every: bool = False) -> Fields:
    topics = None if every else [{**world.names(), "partition_indexes": [0]}]
    return {"groups": [{"group_id": GROUP_NAME, "member_id": None, "member_epoch": -1, "topics": topics}]}


def _transactional(world: World) -> Fields:
    partitions = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]
    return {
        "transactional_id": TRANSACTIONAL_ID,
        "group_id": GROUP_NAME,
        "producer_id": 7,
        "producer_epoch": 0,
        "generation_id": -1,
        "member_id": "",
        "topics": [{"name": world.topic, "partitions": partitions}],
    }


def _resource(kind: int, name: str = "", **more: Any) -> Callable[[World], Fields]:
    def ask(world: World) -> Fields:
        named = {"resource_type": kind, "resource_name": name or (world.topic if kind == TOPIC else "")}
        return {"resources": [{**named, **more}]}

    return ask


_READS_KEY = {"configuration_keys": ["retention.ms"]}
_SETS = {"configs": [{"name": "retention.ms", "config_operation": 0, "value": "1000"}]}
_FILTER = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
_ACL = {
    "resource_type": TOPIC,
    "resource_name": "elsewhere",
    "resource_pattern_type": 3,
    "principal": "User:bob",
    "host": "*",
    "operation": READ,
    "permission_type": 3,
}
_PLAIN, _IN_TRANSACTION = batch((b"a",)), batch((b"a",), attributes=TRANSACTIONAL, producer=(7, 0, 0))

CASES = (
    Case("produce", 9, lambda w: produce(w, (0, _PLAIN)), topic(WRITE)),
    Case("produce", 13, lambda w: produce(w, (0, _PLAIN)), topic(WRITE)),
    Case("produce", 9, lambda w: produce(w, (0, _PLAIN), acks=0), topic(WRITE), what="acks 0"),
    Case(
        "produce",
        9,
        lambda w: produce(w, (0, _IN_TRANSACTION), transactional_id=TRANSACTIONAL_ID),
        (*transaction(WRITE), *topic(WRITE)),
        what="in a transaction",
    ),
    Case("fetch", 12, lambda w: fetch(w, 0), topic(READ)),
    Case("fetch", 13, lambda w: fetch(w, 0), topic(READ)),
    Case(
        "list_offsets",
        7,
        lambda w: {"replica_id": -1, "topics": [{"name": w.topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}]},
        topic(DESCRIBE),
    ),
    Case(
        "offset_for_leader_epoch",
        4,
        lambda w: {"topics": [{"topic": w.topic, "partitions": [{"partition": 0, "leader_epoch": 0}]}]},
        (*topic(DESCRIBE), *cluster(CLUSTER_ACTION)),
        alone=True,
    ),
    Case("metadata", 0, _metadata, (*topic(DESCRIBE), *topic(DESCRIBE, NEW))),
    Case("metadata", 1, fixed({"topics": None}), topic(DESCRIBE), what="all"),
    Case(
        "metadata",
        8,
        lambda w: _metadata(w, include_cluster_authorized_operations=True, include_topic_authorized_operations=True),
        (*topic(READ), *topic(DESCRIBE, NEW), *cluster(ALTER)),
    ),
    Case("metadata", 12, lambda w: {"topics": [{"name": None, "topic_id": w.topic_id}]}, topic(DESCRIBE), what="by id"),
    Case(
        "metadata",
        12,
        lambda w: {**_metadata(w), "allow_auto_topic_creation": True},
        (*topic(DESCRIBE), *topic(DESCRIBE, NEW)),
        what="that would create",
    ),
    Case(
        "describe_topic_partitions",
        0,
        lambda w: {"topics": [{"name": w.topic}, {"name": NEW}], "response_partition_limit": 10, "cursor": None},
        (*topic(ALTER), *topic(DESCRIBE, NEW)),
    ),
    Case(
        "delete_records",
        2,
        lambda w: {"topics": [{"name": w.topic, "partitions": [{"partition_index": 0, "offset": 0}]}], "timeout": 5000},
        topic(DELETE),
    ),
    Case("describe_producers", 0, lambda w: {"topics": [{"name": w.topic, "partition_indexes": [0]}]}, topic(READ)),
    Case(
        "create_topics",
        7,
        fixed({"topics": [{"name": NEW, "num_partitions": 1, "replication_factor": 1}], "timeout": 5000, "validate_only": True}),
        (*topic(CREATE, NEW), *topic(DESCRIBE_CONFIGS, NEW)),
    ),
    Case(
        "create_topics",
        4,
        fixed({"topics": [{"name": NEW, "num_partitions": 1, "replication_factor": 1}], "timeout": 5000, "validate_only": True}),
        (*topic(CREATE, NEW), *cluster(CREATE)),
        alone=True,
    ),
    Case(
        "create_partitions",
        3,
        lambda w: {"topics": [{"name": w.topic, "count": 2, "assignments": None}], "timeout": 5000, "validate_only": True},
        topic(ALTER),
    ),
    Case("delete_topics", 5, fixed({"topic_names": [NEW], "timeout": 5000}), topic(DELETE, NEW), what="missing"),
    Case("delete_topics", 5, lambda w: {"topic_names": [w.topic], "timeout": 5000}, topic(DESCRIBE), what="described"),
    Case(
        "delete_topics",
        6,
        lambda w: {"topics": [{"name": None, "topic_id": w.topic_id}], "timeout": 5000},
        topic(DESCRIBE),
        what="by id",
    ),
    Case("describe_configs", 4, _resource(TOPIC, **_READS_KEY), topic(DESCRIBE_CONFIGS)),
    Case("describe_configs", 4, _resource(BROKER, "1", **_READS_KEY), cluster(DESCRIBE_CONFIGS), what="of a broker"),
    Case("describe_configs", 4, _resource(32, GROUP_NAME, **_READS_KEY), group(DESCRIBE_CONFIGS), what="of a group"),
    Case("alter_configs", 2, _resource(TOPIC, configs=[{"name": "retention.ms", "value": "1000"}]), topic(ALTER_CONFIGS)),
    Case("incremental_alter_configs", 1, _resource(TOPIC, **_SETS), topic(ALTER_CONFIGS)),
    Case(
        "incremental_alter_configs",
        1,
        _resource(BROKER, configs=[{"name": "log.retention.ms", "config_operation": 0, "value": "604800000"}]),
        cluster(ALTER_CONFIGS),
        what="of brokers",
    ),
    Case(
        "incremental_alter_configs",
        1,
        _resource(BROKER_LOGGER, "1", configs=[{"name": "root", "config_operation": 0, "value": "INFO"}]),
        cluster(ALTER_CONFIGS),
        what="of a logger",
    ),
    Case("list_config_resources", 1, fixed({"resource_types": [BROKER]}), cluster(DESCRIBE_CONFIGS)),
    Case("find_coordinator", 3, fixed({"key": GROUP_NAME, "key_type": 0}), group(DESCRIBE)),
    Case("find_coordinator", 4, fixed({"coordinator_keys": [GROUP_NAME, "other"], "key_type": 0}), group(READ)),
    Case("find_coordinator", 4, fixed({"coordinator_keys": [TRANSACTIONAL_ID], "key_type": 1}), transaction(DESCRIBE), what="id"),
    Case(
        "join_group",
        5,
        fixed(
            {
                "group_id": GROUP_NAME,
                "session_timeout": 6000,
                "rebalance_timeout": 6000,
                "member_id": "",
                "protocol_type": "consumer",
                "protocols": [{"name": "range", "metadata": b""}],
            }
        ),
        group(READ),
    ),
    Case("sync_group", 4, fixed({"group_id": GROUP_NAME, "generation_id": 1, "member_id": "m", "assignments": []}), group(READ)),
    Case("heartbeat", 4, fixed({"group_id": GROUP_NAME, "generation_id": 1, "member_id": "m"}), group(READ)),
    Case("leave_group", 5, fixed({"group_id": GROUP_NAME, "members": [{"member_id": "m"}]}), group(READ)),
    Case(
        "consumer_group_heartbeat",
        1,
        lambda w: {"group_id": "848", "member_id": "m", "member_epoch": 7, "subscribed_topic_names": [w.topic]},
        ((READ, GROUP, "848"), *topic(DESCRIBE)),
    ),
    Case("offset_commit", 8, _offsets, (*group(READ), *topic(READ))),
    Case("offset_commit", 10, _offsets, (*group(READ), *topic(READ))),
    Case("offset_fetch", 9, _fetched, (*group(DESCRIBE), *topic(DESCRIBE))),
    Case("offset_fetch", 10, _fetched, (*group(DESCRIBE), *topic(DESCRIBE))),
    Case("offset_fetch", 9, lambda w: _fetched(w, every=True), (*group(DESCRIBE), *topic(DESCRIBE)), what="all"),
    Case(
        "offset_fetch",
        5,
        lambda w: {"group_id": GROUP_NAME, "topics": [{"name": w.topic, "partition_indexes": [0]}]},
        (*group(DESCRIBE), *topic(DESCRIBE)),
    ),
    Case("offset_fetch", 1, lambda w: {"group_id": GROUP_NAME, "topics": [{"name": w.topic, "partition_indexes": [0]}]}),
    Case(
        "offset_delete",
        0,
        lambda w: {"group_id": GROUP_NAME, "topics": [{"name": w.topic, "partitions": [{"partition_index": 0}]}]},
        (*group(DELETE), *topic(READ)),
    ),
    Case("list_groups", 4, fixed({"states_filter": []}), (*group(DESCRIBE), *cluster(DESCRIBE)), alone=True),
    Case(
        "describe_groups",
        6,
        fixed({"groups": [GROUP_NAME, "other"], "include_authorized_operations": True}),
        (*group(READ), *group(DELETE)),
        alone=True,
    ),
    Case(
        "consumer_group_describe",
        1,
        fixed({"group_ids": [GROUP_NAME], "include_authorized_operations": True}),
        group(DESCRIBE),
    ),
    Case("delete_groups", 2, fixed({"groups_names": ["no such group"]}), ((DELETE, GROUP, "no such group"),)),
    Case("init_producer_id", 4, fixed({"transactional_id": "other", "transaction_timeout": 6000}), what="in transactions"),
    Case(
        "init_producer_id",
        4,
        fixed({"transactional_id": None, "transaction_timeout": 6000}),
        (*cluster(IDEMPOTENT_WRITE), *topic(WRITE), *topic(READ)),
        alone=True,
    ),
    Case(
        "add_partitions_to_txn",
        3,
        lambda w: {
            "v3_and_below_transactional_id": TRANSACTIONAL_ID,
            "v3_and_below_producer_id": 7,
            "v3_and_below_producer_epoch": 0,
            "v3_and_below_topics": [{"name": w.topic, "partitions": [0]}, {"name": NEW, "partitions": [0]}],
        },
        (*transaction(WRITE), *topic(WRITE), *topic(WRITE, NEW)),
    ),
    Case(
        "add_partitions_to_txn",
        4,
        lambda w: {
            "transactions": [
                {
                    "transactional_id": TRANSACTIONAL_ID,
                    "producer_id": 7,
                    "producer_epoch": 0,
                    "verify_only": True,
                    "topics": [{"name": w.topic, "partitions": [0]}],
                }
            ]
        },
        cluster(CLUSTER_ACTION),
    ),
    Case(
        "add_offsets_to_txn",
        3,
        fixed({"transactional_id": TRANSACTIONAL_ID, "producer_id": 7, "producer_epoch": 0, "group_id": GROUP_NAME}),
        (*transaction(WRITE), *group(READ)),
    ),
    Case("txn_offset_commit", 3, _transactional, (*transaction(WRITE), *group(READ), *topic(READ))),
    Case(
        "end_txn",
        3,
        fixed({"transactional_id": TRANSACTIONAL_ID, "producer_id": 7, "producer_epoch": 0, "committed": True}),
        transaction(WRITE),
    ),
    Case(
        "write_txn_markers",
        1,
        lambda w: {
            "markers": [
                {
                    "producer_id": 7_100_001,
                    "producer_epoch": 0,
                    "transaction_result": False,
                    "topics": [{"name": NEW, "partition_indexes": [0]}],
                    "coordinator_epoch": 0,
                }
            ]
        },
        (*cluster(ALTER), *cluster(CLUSTER_ACTION)),
        alone=True,
    ),
    Case("describe_transactions", 0, fixed({"transactional_ids": [TRANSACTIONAL_ID]}), transaction(DESCRIBE)),
    Case("list_transactions", 0, fixed({"state_filters": [], "producer_id_filters": []}), transaction(DESCRIBE)),
    Case(
        "describe_cluster",
        1,
        fixed({"include_cluster_authorized_operations": True}),
        (*cluster(DESCRIBE), *cluster(ALTER_CONFIGS)),
    ),
    Case("describe_acls", 3, fixed({**_FILTER, "principal_filter": "User:nobody"}), cluster(DESCRIBE)),
    Case("create_acls", 3, fixed({"creations": [_ACL, _ACL]}), cluster(ALTER)),
    Case("delete_acls", 3, fixed({"filters": [{**_FILTER, "principal_filter": "User:nobody"}]}), cluster(ALTER)),
    Case("describe_client_quotas", 1, fixed({"components": [], "strict": False}), cluster(DESCRIBE_CONFIGS)),
    Case(
        "alter_client_quotas",
        1,
        fixed(
            {
                "entries": [
                    {
                        "entity": [{"entity_type": "user", "entity_name": "bob"}],
                        "ops": [{"key": "producer_byte_rate", "value": 1e6, "remove": False}],
                    }
                ],
                "validate_only": True,
            }
        ),
        cluster(ALTER_CONFIGS),
    ),
    Case("describe_user_scram_credentials", 0, fixed({"users": [{"name": "bob"}]}), cluster(DESCRIBE)),
    Case(
        "alter_user_scram_credentials",
        0,
        fixed({"deletions": [{"name": "bob", "mechanism": 1}], "upsertions": []}),
        cluster(ALTER),
    ),
    Case("describe_log_dirs", 4, fixed({"topics": []}), cluster(DESCRIBE)),
    Case(
        "alter_replica_log_dirs",
        2,
        lambda w: {"dirs": [{"path": "/no/such", "topics": [{"name": w.topic, "partitions": [0]}]}]},
        cluster(ALTER),
    ),
    Case(
        "elect_leaders",
        2,
        lambda w: {
            "election_type": 0,
            "topic_partitions": [{"topic": w.topic, "partitions": [0]}],
            "timeout": 5000,
        },
        cluster(ALTER),
    ),
    Case(
        "alter_partition_reassignments",
        0,
        lambda w: {
            "timeout": 5000,
            "topics": [{"name": w.topic, "partitions": [{"partition_index": 0, "replicas": None}]}],
        },
        cluster(ALTER),
    ),
    Case(
        "list_partition_reassignments",
        0,
        lambda w: {"timeout": 5000, "topics": [{"name": w.topic, "partition_indexes": [0]}]},
        cluster(DESCRIBE),
    ),
    Case("describe_quorum", 2, fixed({"topics": []}), cluster(DESCRIBE)),
    Case(
        "update_features",
        1,
        fixed({"timeout": 5000, "feature_updates": [], "validate_only": True}),
        cluster(ALTER),
    ),
    Case("unregister_broker", 0, fixed({"broker_id": 99}), cluster(ALTER)),
)
