"""Where clients can see that this is not Apache Kafka, and why: one row per difference.

docs/protocol.md prints the rows, and tests/differential holds them to be all that there are: it sends the same requests to both
systems, and fails on a difference that is not here and on a row that no request shows.
"""

from dataclasses import dataclass
from typing import Final

from libs.wire.api import ApiKey


@dataclass(frozen=True, slots=True)
class Difference:
    """`api` is None for what holds everywhere. `unseen` says why no request to one broker shows it; empty: requests do."""

    id: str
    api: ApiKey | None
    text: str
    unseen: str = ""


DIFFERENCES: Final = (
    # What is stricter, whatever the API
    Difference("strict-text", None, "Text that is not UTF-8 closes the connection; Kafka puts other letters in its place."),
    Difference("strict-lengths", None, "A length below -1 closes the connection; Kafka takes it for null."),
    Difference("strict-varints", None, "A varint longer than it need be closes the connection."),
    Difference(
        "strict-end",
        None,
        "Bytes after the end of a request close the connection; Kafka passes over them, and so do we over the three that "
        "librdkafka leaves behind a Metadata request for all topics.",
    ),
    Difference("strict-tagged-fields", None, "More than 64 tagged fields in one section close the connection."),
    Difference(
        "strict-arrays",
        None,
        "More than 1,000,000 array elements in one request close the connection; so do, in requests about groups, more than "
        "100,000, and more than 20,000 groups or keys (DescribeGroups, DeleteGroups, ConsumerGroupDescribe, OffsetFetch, "
        "FindCoordinator).",
    ),
    Difference(
        "half-frames",
        None,
        "Half a frame and then silence closes the connection, after 30 s and a second for each 16 KB that came; Kafka waits "
        "for as long as an idle connection may stay, which is ten minutes.",
    ),
    Difference(
        "unread-answers",
        None,
        "A client that sends requests and does not read the answers is not read from, as in Kafka, and after 30 s without any "
        "progress its connection closes.",
    ),
    Difference(
        "not-built-yet",
        None,
        "APIs that are not built yet are not advertised, and close the connection; they are listed below.",
    ),
    # The data path
    Difference(
        "produce-records-unopened",
        ApiKey.PRODUCE,
        "Records inside a batch are not opened by default (`record.validation=header`): CRC, counts, sequences and the batch's "
        "newest timestamp are checked, so that a batch whose records are not as its header says is stored, and an error does "
        "not name records. `record.validation=full` opens them and answers as Kafka does; so do compacted topics, and those "
        "whose `compression.type` is not that of the batch.",
    ),
    Difference(
        "produce-unreadable-records",
        ApiKey.PRODUCE,
        "Where records are opened, what cannot be decompressed answers CORRUPT_MESSAGE, and what is no record INVALID_RECORD; "
        "Kafka: UNKNOWN_SERVER_ERROR, for most of it.",
    ),
    Difference(
        "produce-strict-records",
        ApiKey.PRODUCE,
        "Where records are opened, one with a length below -1, or that ends before or after its length says, answers "
        "INVALID_RECORD; Kafka takes the former for null, and does not notice all of the latter in compressed batches.",
    ),
    Difference(
        "produce-renumbered",
        ApiKey.PRODUCE,
        "Where records are opened, a compressed batch whose records are not numbered from 0 on is stored as if they were; Kafka: "
        "UNKNOWN_SERVER_ERROR.",
    ),
    Difference(
        "produce-decompressed-size",
        ApiKey.PRODUCE,
        "Where records are opened, a batch that holds more than 128 MiB answers MESSAGE_TOO_LARGE; Kafka knows no bound.",
        unseen="it would fill Kafka's memory",
    ),
    Difference(
        "produce-named-records",
        ApiKey.PRODUCE,
        "An answer names at most 1,000 of a batch's bad records.",
        unseen="no scenario has so many",
    ),
    Difference(
        "produce-told-addresses",
        ApiKey.PRODUCE,
        "When a gateway joined or left, the next answer to an idempotent producer names leader and endpoints though there is no "
        "error (KIP-951): librdkafka takes the addresses, others pass over them. Kafka names them with "
        "NOT_LEADER_OR_FOLLOWER only.",
        unseen="it takes a second gateway: tests/gateway/test_news.py",
    ),
    Difference(
        "topic-configs-lz4-level",
        ApiKey.CREATE_TOPICS,
        "compression.lz4.level above 12 is level 12, the library's highest.",
        unseen="the records are the same",
    ),
    Difference(
        "produce-internal-topics",
        ApiKey.PRODUCE,
        "Internal topics are written by their coordinators alone; Kafka lets the client id `__admin_client` write them too.",
        unseen="it would have to write one: tests/gateway/test_produce.py",
    ),
    Difference(
        "produce-repeated-partition",
        ApiKey.PRODUCE,
        "A partition that is named twice answers INVALID_REQUEST; Kafka stores one of the two batches and loses the other.",
    ),
    Difference("produce-repeated-topic", ApiKey.PRODUCE, "A topic that is named twice is answered twice; Kafka makes one of it."),
    Difference(
        "produce-null-records",
        ApiKey.PRODUCE,
        "A null instead of a batch answers INVALID_RECORD; Kafka never answers, nor whatever follows on that connection.",
    ),
    Difference(
        "produce-bytes-after-batch",
        ApiKey.PRODUCE,
        "Bytes after the batch that are no batch answer INVALID_RECORD; Kafka drops them and says that all is well.",
    ),
    Difference(
        "produce-log-append-time-claims",
        ApiKey.PRODUCE,
        "A batch that says it has the time of its append is refused with INVALID_TIMESTAMP where the topic keeps the time of "
        "creation, since that is not true. Kafka has it the other way round: it refuses the claim where the topic has "
        "LogAppendTime, where the stamp is replaced anyway.",
    ),
    Difference(
        "produce-unknown-codec",
        ApiKey.PRODUCE,
        "A compression codec that does not exist answers INVALID_RECORD; Kafka: UNKNOWN_SERVER_ERROR.",
    ),
    Difference(
        "produce-transactions",
        ApiKey.PRODUCE,
        "There are no transactions yet: a transactional batch answers INVALID_TXN_STATE, from version 11 TRANSACTION_ABORTABLE.",
    ),
    Difference(
        "fetch-sessions",
        ApiKey.FETCH,
        "There are no fetch sessions yet: every answer has session id 0, so that clients go on with full fetches.",
    ),
    Difference(
        "fetch-as-replica",
        ApiKey.FETCH,
        "A fetch as a replica answers TOPIC_AUTHORIZATION_FAILED: followers pull by RPC, and clients have no business there.",
    ),
    Difference(
        "fetch-repeated-partition",
        ApiKey.FETCH,
        "A partition or a topic that is named twice is answered twice; Kafka answers the last mention only.",
    ),
    Difference(
        "fetch-isolation-level",
        ApiKey.FETCH,
        "An isolation level that does not exist answers INVALID_REQUEST for each partition; Kafka: UNKNOWN_SERVER_ERROR.",
    ),
    Difference(
        "fetch-negative-sizes",
        ApiKey.FETCH,
        "A largest size below 0 counts as 0, which brings one batch; Kafka: UNKNOWN_SERVER_ERROR.",
    ),
    Difference(
        "fetch-on-bootstrap",
        ApiKey.FETCH,
        "The bootstrap port, which is no broker, passes a fetch on to the leader of its first partition.",
        unseen="Kafka has no such port",
    ),
    Difference(
        "fetch-from-followers",
        ApiKey.FETCH,
        "A follower serves consumers that name a rack, while it is in the ISR. Kafka's serve any consumer, in the ISR or not: "
        "one that is cut off lets its readers stand still until their metadata is refreshed.",
        unseen="it takes a second broker",
    ),
    Difference(
        "fetch-waits-for-a-leader",
        ApiKey.FETCH,
        "While nobody leads any of its partitions, a fetch waits for who will, no longer than it would for records; Kafka "
        "answers NOT_LEADER_OR_FOLLOWER at once.",
        unseen="it takes a broker that died",
    ),
    Difference(
        "list-offsets-isolation-level",
        ApiKey.LIST_OFFSETS,
        "An isolation level that does not exist answers INVALID_REQUEST for each partition; Kafka: UNKNOWN_SERVER_ERROR.",
    ),
    Difference(
        "list-offsets-anywhere",
        ApiKey.LIST_OFFSETS,
        "The leader is asked wherever it is; Kafka answers NOT_LEADER_OR_FOLLOWER for what another broker leads.",
        unseen="it takes a second broker",
    ),
    Difference(
        "delete-records-anywhere",
        ApiKey.DELETE_RECORDS,
        "The leader is asked wherever it is; Kafka answers NOT_LEADER_OR_FOLLOWER for what another broker leads.",
        unseen="it takes a second broker",
    ),
    Difference(
        "ends-of-epochs-anywhere",
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        "The leader is asked wherever it is; Kafka answers NOT_LEADER_OR_FOLLOWER for what another broker leads.",
        unseen="it takes a second broker",
    ),
    # Topics and brokers
    Difference(
        "metadata-created-at-once",
        ApiKey.METADATA,
        "A topic that is created on demand is in the same answer if it is there within a second; Kafka first answers "
        "UNKNOWN_TOPIC_OR_PARTITION, and clients ask again.",
    ),
    Difference(
        "metadata-unnamed",
        ApiKey.METADATA,
        "A topic with neither id nor name answers INVALID_TOPIC_EXCEPTION for that topic; Kafka: UNKNOWN_SERVER_ERROR for all.",
    ),
    Difference(
        "metadata-internal-topics",
        ApiKey.METADATA,
        "Of internal topics only `__consumer_offsets` is created on demand, while there are no coordinators to own the others.",
        unseen="the first answers are alike",
    ),
    Difference(
        "metadata-controller",
        ApiKey.METADATA,
        "The controller id is the broker that was asked; Kafka names any. Each forwards what a controller has to do.",
        unseen="it takes a second broker",
    ),
    Difference(
        "metadata-no-broker",
        ApiKey.METADATA,
        "While no storage node is alive, all that are known are named, whose ports gateways keep open: librdkafka, told of none "
        "as by Kafka, may never ask again (its issue 5301). They lead nothing.",
        unseen="no storage node is alive then: tests/gateway/test_metadata.py",
    ),
    Difference(
        "api-versions-features",
        ApiKey.API_VERSIONS,
        "No features are listed: metadata.version is KRaft's own, a config says which protocols groups may use, and transactions "
        "are not served yet.",
    ),
    Difference(
        "create-topics-colliding",
        ApiKey.CREATE_TOPICS,
        "Of two new topics that differ by dot and underscore only, the second answers INVALID_TOPIC_EXCEPTION also when both are "
        "in one request; Kafka compares with the topics that are there, and then has two whose metrics collide.",
    ),
    Difference(
        "topic-configs-own",
        ApiKey.CREATE_TOPICS,
        "`durability` and `record.validation` are configs of Penstock's own, with `log.` before them for brokers.",
    ),
    Difference(
        "topic-configs-min-isr",
        ApiKey.CREATE_TOPICS,
        "min.insync.replicas has its default from the software, and that is 2 for topics with 3 replicas or more; Kafka, with "
        "eligible leader replicas, pins it as a dynamic default of all brokers.",
    ),
    Difference(
        "topic-configs-not-acted-on",
        ApiKey.CREATE_TOPICS,
        "A config that Kafka takes and Penstock does not act on, such as remote.log.copy.disable=true, answers INVALID_CONFIG "
        "rather than being ignored.",
    ),
    Difference(
        "delete-topics-by-id-and-name",
        ApiKey.DELETE_TOPICS,
        "A topic that is named by its id and once more by its name is answered for each; Kafka answers once. Neither deletes it.",
    ),
    Difference(
        "create-partitions-too-many",
        ApiKey.CREATE_PARTITIONS,
        "Too many partitions answer POLICY_VIOLATION, as in CreateTopics; Kafka tries, and answers UNKNOWN_SERVER_ERROR.",
    ),
    Difference(
        "create-partitions-internal",
        ApiKey.CREATE_PARTITIONS,
        "An internal topic gets no more partitions: INVALID_TOPIC_EXCEPTION. Kafka adds them, and its brokers look for groups in "
        "others from their next start on.",
    ),
    # Coordinators
    Difference(
        "find-coordinator-at-once",
        ApiKey.FIND_COORDINATOR,
        "A group's coordinator that is there within a second, its topic being made meanwhile, is in the same answer; Kafka first "
        "answers COORDINATOR_NOT_AVAILABLE, and clients ask again.",
        unseen="it takes a cluster that nobody asked for a group yet",
    ),
    Difference(
        "find-coordinator-nobody",
        ApiKey.FIND_COORDINATOR,
        "There are no coordinators of transactions and share groups, and nobody is found. From version 3 on the answer is "
        "UNSUPPORTED_VERSION, which clients take for final and show to their users; before, for transactions, "
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED, the one answer that librdkafka does not ask again after.",
        unseen="Kafka would have to make its internal topics",
    ),
    Difference(
        "find-coordinator-leaderless",
        ApiKey.FIND_COORDINATOR,
        "While nobody leads the partition of a group's shard, the first of its replicas that lives is named, since any broker "
        "reaches the coordinator; Kafka answers COORDINATOR_NOT_AVAILABLE.",
        unseen="it takes a broker that died",
    ),
    Difference(
        "find-coordinator-moved",
        ApiKey.FIND_COORDINATOR,
        "For a minute after a gateway came or went, a group whose broker has another address since is first told "
        "COORDINATOR_NOT_AVAILABLE: librdkafka would keep the old address while the broker id is the same.",
        unseen="it takes two gateways: tests/clients/test_moving_groups.py",
    ),
    Difference(
        "groups-anywhere",
        ApiKey.JOIN_GROUP,
        "Any broker takes requests about any group, and passes them on to its coordinator; Kafka answers NOT_COORDINATOR for "
        "groups of other brokers.",
        unseen="it takes a second broker",
    ),
    Difference(
        "groups-wait-for-coordinators",
        ApiKey.JOIN_GROUP,
        "While a group's coordinator is loading, or another takes over, requests that it has not seen wait for it for up to 3 s, "
        "heartbeats for 1.5 s; "
        "Kafka answers COORDINATOR_LOAD_IN_PROGRESS or NOT_COORDINATOR at once.",
        unseen="it takes a broker that died",
    ),
    Difference(
        "join-named-and-static",
        ApiKey.JOIN_GROUP,
        "A member that was given its id and comes back with an instance id besides answers UNKNOWN_MEMBER_ID; Kafka: "
        "UNKNOWN_SERVER_ERROR.",
    ),
    Difference(
        "join-repeated-protocol",
        ApiKey.JOIN_GROUP,
        "Of a protocol that a member names twice, the first counts; Kafka never answers.",
    ),
    Difference(
        "join-nameless-protocol",
        ApiKey.JOIN_GROUP,
        'A protocol whose name is empty is called ""; Kafka says null from version 7 on.',
    ),
    Difference(
        "list-groups-on-bootstrap",
        ApiKey.LIST_GROUPS,
        "The bootstrap port, which is no broker, lists the groups of the whole cluster.",
        unseen="Kafka has no such port",
    ),
    Difference(
        "list-groups-whole",
        ApiKey.LIST_GROUPS,
        "While the coordinator of some of a broker's groups cannot be asked the answer is COORDINATOR_NOT_AVAILABLE, and clients "
        "ask again; Kafka leaves out groups whose coordinator moves meanwhile.",
        unseen="it takes a broker that died",
    ),
    # Configs
    Difference(
        "broker-configs-left-out",
        ApiKey.DESCRIBE_CONFIGS,
        "The broker configs are those that mean something here, with no value for listeners and log.dirs, which each process "
        "has for itself.",
    ),
    Difference(
        "broker-configs-changeable",
        ApiKey.DESCRIBE_CONFIGS,
        "What decides for the whole cluster (num.partitions, default.replication.factor, auto.create.topics.enable, "
        "delete.topic.enable, auto.leader.rebalance.enable, leader.imbalance.*, and of groups all: group.*, offset.*, offsets.*) "
        "can be changed while it runs, instead of being told to brokers at their start; listeners cannot. "
        "group.min.session.timeout.ms and its max, which Kafka does not bound, are 1 at least.",
    ),
    Difference(
        "broker-configs-protocols",
        ApiKey.DESCRIBE_CONFIGS,
        "group.coordinator.rebalance.protocols is classic,consumer: streams groups are not built.",
    ),
    Difference(
        "group-configs-not-acted-on",
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        "A group's share.* and streams.*, of which there are no groups yet, take their defaults only: anything else answers "
        "INVALID_CONFIG rather than being ignored.",
    ),
    Difference(
        "group-configs-removed",
        ApiKey.LIST_CONFIG_RESOURCES,
        "A group is listed while something is configured for it; Kafka goes on listing it when the last of its configs is gone.",
    ),
    Difference(
        "broker-configs-revived",
        ApiKey.DESCRIBE_CONFIGS,
        "leader.imbalance.per.broker.percentage and replica.lag.max.messages, which Kafka had once, mean what they did there. "
        "The latter is off unless it is set.",
    ),
    Difference(
        "broker-configs-balancing",
        ApiKey.DESCRIBE_CONFIGS,
        "`decommission`, of one broker, and `self.balancing.*`, of the cluster, are configs of Penstock's own.",
    ),
    Difference(
        "default-replication-factor",
        ApiKey.DESCRIBE_CONFIGS,
        "default.replication.factor is 3 where nobody sets it, but no more than there are storage nodes; Kafka's is 1. So is "
        "offsets.topic.replication.factor, which Kafka takes for 3 however few brokers there are: then no group can be served.",
    ),
    Difference(
        "broker-configs-coarse",
        ApiKey.DESCRIBE_CONFIGS,
        "log.retention.hours and its like keep the value that the broker was started with; Kafka describes their default once "
        "the config that wins over them, such as log.retention.ms, has been changed while it runs.",
        unseen="it takes a broker that was started with them: tests/differential/test_started_with_configs.py",
    ),
    Difference(
        "cleaner-rate-of-nothing",
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        "log.cleaner.io.max.bytes.per.second=0 limits nothing, as a negative value does in both; Kafka's cleaner then sleeps for "
        "ever after its first bytes.",
        unseen="the answers are the same: tests/storage/test_cleaning.py",
    ),
    Difference(
        "configs-of-others",
        ApiKey.DESCRIBE_CONFIGS,
        "Broker loggers and client metrics have no configs yet, and answer INVALID_REQUEST, here and when altered. Loggers are "
        "not listed by ListConfigResources.",
    ),
    Difference(
        "configs-on-bootstrap",
        ApiKey.DESCRIBE_CONFIGS,
        "On the bootstrap port, which is no broker, any broker is described and altered.",
        unseen="Kafka has no such port",
    ),
    Difference(
        "log-dirs-on-bootstrap",
        ApiKey.DESCRIBE_LOG_DIRS,
        "On the bootstrap port, which is no broker, the log directories of any broker are described, and its replicas moved.",
        unseen="Kafka has no such port",
    ),
    Difference(
        "log-dirs-of-topics-to-come",
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        "Where a replica is to be made is remembered for partitions that there are; Kafka also remembers it for names of topics "
        "that there are not.",
        unseen="the answers are the same",
    ),
    Difference(
        "reassign-another-target",
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        "Another target midway starts from the original replicas, as KIP-455 says: what was added for the former target only "
        "goes at once, and to cancel leads back to the original. Kafka starts from all replicas that are there: what was to be "
        "removed is removed even if the new target names it, and to cancel may leave more replicas than there were.",
        unseen="it takes three brokers: tests/differential/test_moving_among_three.py",
    ),
    Difference(
        "unregister-alive",
        ApiKey.UNREGISTER_BROKER,
        "A node that is alive answers INVALID_REQUEST. Kafka takes it off the list, and it goes on running outside of the "
        "cluster until it is restarted.",
        unseen="it takes three brokers: tests/differential/test_moving_among_three.py",
    ),
    Difference(
        "alter-configs-unknown-operation",
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        "An operation that does not exist answers INVALID_REQUEST; Kafka: UNKNOWN_SERVER_ERROR.",
    ),
    Difference(
        "alter-configs-unknown-broker-config",
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        "An unknown broker config answers INVALID_CONFIG; Kafka takes any name, for its plug-ins' sake.",
    ),
    Difference(
        "alter-configs-repeated-resource",
        ApiKey.ALTER_CONFIGS,
        "A resource that is named twice answers INVALID_REQUEST; Kafka never answers, nor whatever follows on that connection.",
    ),
    Difference(
        "describe-partitions-unnamed",
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        "A topic without a name answers INVALID_TOPIC_EXCEPTION; Kafka: UNKNOWN_SERVER_ERROR.",
    ),
    Difference(
        "describe-partitions-eligible-leaders",
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        "Eligible leader replicas are always empty, since the ISR of a partition never is.",
        unseen="it takes brokers that died",
    ),
)
