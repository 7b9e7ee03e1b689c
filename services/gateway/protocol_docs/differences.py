"""The differences from Apache Kafka that a client can observe, and their reasons: one row per difference.

docs/protocol.md prints the rows. tests/compat/differential proves that the list is complete: it sends the same requests to both
systems. It fails on a difference that is not listed, and on a row that no request shows.
"""

from typing import Final

from libs.lean_dataclass import dataclass
from libs.wire.api_keys import ApiKey


@dataclass(frozen=True, slots=True)
class Difference:
    """One row. `api` is None for a difference of all APIs. `unseen` says why no request to a single broker shows it; empty: one
    does."""

    id: str
    api: ApiKey | None
    text: str
    unseen: str = ""


DIFFERENCES: Final = (
    # Stricter checks, for all APIs
    Difference("strict-text", None, "Text that is not UTF-8 closes the connection. Kafka replaces the invalid characters."),
    Difference("strict-lengths", None, "A length below -1 closes the connection. Kafka reads it as null."),
    Difference("strict-varints", None, "A varint that is longer than necessary closes the connection."),
    Difference(
        "strict-end",
        None,
        "Bytes after the end of a request close the connection. Kafka ignores them. Penstock ignores only what librdkafka "
        "leaves there: three bytes behind a Metadata request for all topics, one behind AlterUserScramCredentials.",
    ),
    Difference("strict-tagged-fields", None, "More than 64 tagged fields in one section close the connection."),
    Difference(
        "strict-arrays",
        None,
        "More than 1,000,000 array elements in one request close the connection. In requests about groups the bound is 100,000,"
        " and 20,000 for groups or keys (DescribeGroups, DeleteGroups, ConsumerGroupDescribe, OffsetFetch, FindCoordinator), "
        "for ACLs (CreateAcls, DeleteAcls), configs (DescribeConfigs, AlterConfigs, IncrementalAlterConfigs) and quotas "
        "(AlterClientQuotas). It is 1,000 for DescribeQuorum, UpdateFeatures and DescribeClientQuotas. DescribeConfigs describes "
        "each of more than 50 resources once.",
    ),
    Difference(
        "half-frames",
        None,
        "An incomplete frame closes the connection after 30 s, plus a second for each 16 KB that have arrived. Kafka waits as "
        "long as for an idle connection, which is ten minutes.",
    ),
    Difference(
        "unread-answers",
        None,
        "A client that sends requests and does not read the answers is no longer read from, as in Kafka. After 30 s without "
        "progress its connection closes.",
    ),
    Difference(
        "queued-requests",
        None,
        "The requests of all clients have a budget, `queued_request_bytes_max`, beyond which connections are not read. Kafka's "
        "`queued.max.request.bytes` has no bound by default. An eighth of the budget is kept for clients that send little. While "
        "others wait for room, a connection closes if its request takes more than 2 s to arrive or to begin. So does one that "
        "waits for room for 30 s. Kafka lets all of them wait.",
        unseen="it takes more requests than the budget: tests/system/faults/test_memory_under_hostile_load.py",
    ),
    Difference(
        "unread-memory",
        None,
        "Answers in memory that clients do not read have a budget, `unread_answer_bytes_max`. Above half of it, a client that "
        "reads nothing for 2 s is disconnected. Kafka has no such bound.",
        unseen="it takes more answers than the budget: tests/gateway/test_answer_budget.py",
    ),
    Difference(
        "fetch-max-wait",
        ApiKey.FETCH,
        "A Fetch waits for a minute at most, whatever its max_wait. In Kafka it waits as long as its client asks for.",
        unseen="it takes a minute: tests/gateway/test_request_budget.py",
    ),
    Difference(
        "connection-limits",
        None,
        "Limits of connections hold for each gateway, as Kafka's hold for each broker: `max.connections`, "
        "`max.connections.per.ip`, `max.connections.per.ip.overrides` and `max.connection.creation.rate`. A broker's own value "
        "holds for its port at each gateway, beside that of the gateway. A connection beyond `max.connections` closes at once, "
        "where Kafka lets it wait. Unless it is set, the limit of open files decides, and Kafka has no limit. A gateway takes "
        "two connections, whatever `max.connections` says, and two of an address, whatever `max.connections.per.ip` says, but "
        "for 0. Names of hosts in `max.connections.per.ip.overrides` are refused. The "
        "quota `connection_creation_rate` of an address holds for the cluster, and each gateway takes an equal part of it.",
        unseen="it takes as many connections as the limit: tests/gateway/test_connection_limits.py",
    ),
    Difference(
        "cluster-quotas",
        None,
        "A client quota holds for the whole cluster, where Kafka's hold for each broker. A client that was quiet may use half a "
        "second of it at once, and what gateways have in hand. In Kafka that is up to eleven seconds. `request_percentage` "
        "counts a gateway's event loop only. See [quotas](quotas.md).",
        unseen="a single broker is the whole cluster: tests/quota_manager/test_promise.py",
    ),
    Difference(
        "throttle-times",
        None,
        "`throttle_time_ms` is 10 s at most. Kafka tells all of it. A connection that owes more stays muted until its debt is "
        "paid; one that is beyond `controller_mutation_rate` is told the rest by its next answer.",
        unseen="a longer throttle time would hold up the comparison: tests/gateway/test_throttling.py",
    ),
    Difference(
        "acl-bounds",
        ApiKey.CREATE_ACLS,
        "A cluster has 20,000 ACLs at most, and one beyond is refused with POLICY_VIOLATION. A resource name, principal and host "
        "that have more than some 4,000 bytes together, with escapes, are refused with INVALID_REQUEST. Kafka has no such "
        "bounds. ACLs of one request are created in several transactions, of 120 each.",
        unseen="it takes more ACLs than the bound: tests/controller/test_acls.py",
    ),
    Difference(
        "acl-any",
        ApiKey.CREATE_ACLS,
        "An ACL for any resource type, pattern type, operation or permission (ANY, or MATCH) is refused with INVALID_REQUEST, "
        "and others of the request are created. Kafka answers UNKNOWN_SERVER_ERROR for each of the request.",
        unseen="it takes an authorizer: tests/compat/differential/test_authorization.py",
    ),
    Difference(
        "acl-addresses",
        ApiKey.CREATE_ACLS,
        "An IPv6 address has one spelling, and an IPv4 address that is mapped into IPv6 is an IPv4 address. In Kafka an ACL for "
        "`::1` never matches, since Java writes the address of a client as `0:0:0:0:0:0:0:1`.",
        unseen="it takes an authorizer: tests/compat/differential/test_authorization.py",
    ),
    Difference(
        "acl-deletion-bounds",
        ApiKey.DELETE_ACLS,
        "The filters of one request are compared with ACLs two million times at most; those beyond are refused with "
        "INVALID_REQUEST. One that can match a single ACL counts once. ACLs are deleted in several transactions, of 120 each.",
        unseen="it takes more filters than the bound: tests/controller/test_acls.py",
    ),
    Difference(
        "not-built-yet",
        None,
        "APIs that are not built yet are not advertised, and close the connection. They are listed below.",
    ),
    # The data path
    Difference(
        "produce-records-unopened",
        ApiKey.PRODUCE,
        "Records inside a batch are not opened by default (`record.validation=header`). CRC, counts, sequences and the batch's "
        "newest timestamp are checked. So a batch whose records contradict its header is stored, and an error does not name "
        "records. `record.validation=full` opens the records and answers as Kafka does. So do compacted topics, and topics "
        "whose `compression.type` is not that of the batch.",
    ),
    Difference(
        "produce-unreadable-records",
        ApiKey.PRODUCE,
        "Where records are opened, a batch that cannot be decompressed answers CORRUPT_MESSAGE, and an invalid record answers "
        "INVALID_RECORD. Kafka answers UNKNOWN_SERVER_ERROR for most of these.",
    ),
    Difference(
        "produce-strict-records",
        ApiKey.PRODUCE,
        "Where records are opened, a record with a length below -1 answers INVALID_RECORD. So does a record that ends before or"
        " after its length. Kafka reads a length below -1 as null, and does not notice each wrong length in compressed batches.",
    ),
    Difference(
        "produce-renumbered",
        ApiKey.PRODUCE,
        "Where records are opened, a compressed batch whose records are not numbered from 0 on is stored with such numbers. "
        "Kafka answers UNKNOWN_SERVER_ERROR.",
    ),
    Difference(
        "produce-decompressed-size",
        ApiKey.PRODUCE,
        "Where records are opened, a batch that holds more than 128 MiB answers MESSAGE_TOO_LARGE. Kafka has no bound. "
        "Compaction leaves such a batch as it is if it came before the topic was compacted, and tombstones behind it. So it does "
        "with one whose bytes are no records, where Kafka cleans that log no more.",
        unseen="it would exhaust Kafka's memory",
    ),
    Difference(
        "produce-named-records",
        ApiKey.PRODUCE,
        "An answer names at most 1,000 invalid records of a batch.",
        unseen="no scenario has so many",
    ),
    Difference(
        "produce-refused-first",
        ApiKey.PRODUCE,
        "The first batch of an idempotent producer is refused for now, for instance with NOT_ENOUGH_REPLICAS. Later batches, "
        "already on their way, answer NOT_LEADER_OR_FOLLOWER or OUT_OF_ORDER_SEQUENCE_NUMBER for up to 5 s, until the first "
        "comes again. Kafka stores them, and then the first is out of order for ever.",
        unseen="a single broker has enough replicas: tests/storage/test_refused_batches.py",
    ),
    Difference(
        "produce-endpoint-hints",
        ApiKey.PRODUCE,
        "When a gateway joined or left, the next answer to an idempotent producer names leader and endpoints (KIP-951), even "
        "without an error. Clients of librdkafka take the addresses, others ignore them. Kafka names them only with "
        "NOT_LEADER_OR_FOLLOWER.",
        unseen="it takes a second gateway: tests/gateway/test_endpoint_hints.py",
    ),
    Difference(
        "topic-configs-index-interval",
        ApiKey.CREATE_TOPICS,
        "An index.interval.bytes above 131,072 counts as 131,072, so that no fetch walks over many batches. Indexes of Kafka's "
        "with fewer entries are made again when a fetch needs them.",
        unseen="the records are the same: tests/commitlog/test_index_files.py",
    ),
    Difference(
        "topic-configs-lz4-level",
        ApiKey.CREATE_TOPICS,
        "A compression.lz4.level above 12 counts as 12, the library's highest.",
        unseen="the records are the same",
    ),
    Difference(
        "produce-internal-topics",
        ApiKey.PRODUCE,
        "Internal topics are written by their coordinators only. Kafka lets the client id `__admin_client` write them, too.",
        unseen="it would have to write to an internal topic: tests/gateway/test_produce.py",
    ),
    Difference(
        "produce-repeated-partition",
        ApiKey.PRODUCE,
        "A partition that is named twice answers INVALID_REQUEST. Kafka stores one of the two batches and loses the other.",
    ),
    Difference(
        "produce-producer-expiry",
        ApiKey.PRODUCE,
        "A partition forgets an idempotent producer when its last append was producer.id.expiration.ms ago by the node's clock. "
        "Kafka counts from the greatest timestamp in the producer's last batch.",
        unseen="it takes a check of expiration, which runs every ten minutes",
    ),
    Difference(
        "produce-producer-bound",
        ApiKey.PRODUCE,
        "A partition remembers `producer.ids.max` idempotent producers, a storage node PENSTOCK_PRODUCER_IDS_MAX. Beyond that it "
        "forgets about the longest silent, never one with an open transaction. As after an expiry, such a producer "
        "may go on with any sequence, and a batch that it repeats is stored twice. Kafka has no bound.",
        unseen="it takes too many producers: tests/storage/test_producer_expiry.py",
    ),
    Difference("produce-repeated-topic", ApiKey.PRODUCE, "A topic that is named twice is answered twice. Kafka merges the two."),
    Difference(
        "produce-null-records",
        ApiKey.PRODUCE,
        "A null instead of a batch answers INVALID_RECORD. Kafka never answers it, nor any later request on that connection.",
    ),
    Difference(
        "produce-bytes-after-batch",
        ApiKey.PRODUCE,
        "Bytes after the batch that are no batch answer INVALID_RECORD. Kafka drops them and answers without an error.",
    ),
    Difference(
        "produce-log-append-time-claims",
        ApiKey.PRODUCE,
        "A batch that claims LogAppendTime is refused with INVALID_TIMESTAMP where the topic has CreateTime, since the claim is"
        " false. Kafka does the opposite: it refuses the claim where the topic has LogAppendTime, though the timestamp is "
        "replaced there anyway.",
    ),
    Difference(
        "produce-unknown-codec",
        ApiKey.PRODUCE,
        "A compression codec that does not exist answers INVALID_RECORD. Kafka answers UNKNOWN_SERVER_ERROR.",
    ),
    Difference(
        "fetch-sessions",
        ApiKey.FETCH,
        "There are no fetch sessions yet. Each answer has session id 0, so that clients continue with full fetches.",
    ),
    Difference(
        "fetch-as-replica",
        ApiKey.FETCH,
        "A fetch as a replica answers TOPIC_AUTHORIZATION_FAILED. Followers pull by RPC, and no client needs such a fetch.",
    ),
    Difference(
        "fetch-repeated-partition",
        ApiKey.FETCH,
        "A partition or a topic that is named twice is answered twice. Kafka answers the last mention only.",
    ),
    Difference(
        "fetch-isolation-level",
        ApiKey.FETCH,
        "An isolation level that does not exist answers INVALID_REQUEST for each partition. Kafka answers UNKNOWN_SERVER_ERROR.",
    ),
    Difference(
        "fetch-negative-sizes",
        ApiKey.FETCH,
        "A maximum size below 0 counts as 0, which returns one batch. Kafka answers UNKNOWN_SERVER_ERROR.",
    ),
    Difference(
        "fetch-on-bootstrap",
        ApiKey.FETCH,
        "The bootstrap port, which is no broker, sends a fetch to the leader of its first partition.",
        unseen="Kafka has no such port",
    ),
    Difference(
        "fetch-from-followers",
        ApiKey.FETCH,
        "A follower serves consumers that name a rack, while it is in the ISR. Kafka's followers serve any consumer, in the ISR"
        " or not. So the readers of a follower that is cut off stand still until their metadata is refreshed.",
        unseen="it takes a second broker",
    ),
    Difference(
        "fetch-waits-for-a-leader",
        ApiKey.FETCH,
        "While none of its partitions has a leader, a fetch waits for one, no longer than it would wait for records. Kafka "
        "answers NOT_LEADER_OR_FOLLOWER at once.",
        unseen="it takes a broker that died",
    ),
    Difference(
        "list-offsets-isolation-level",
        ApiKey.LIST_OFFSETS,
        "An isolation level that does not exist answers INVALID_REQUEST for each partition. Kafka answers UNKNOWN_SERVER_ERROR.",
    ),
    Difference(
        "list-offsets-anywhere",
        ApiKey.LIST_OFFSETS,
        "The leader is asked wherever it is. Kafka answers NOT_LEADER_OR_FOLLOWER for partitions that another broker leads.",
        unseen="it takes a second broker",
    ),
    Difference(
        "list-offsets-acknowledged-end",
        ApiKey.LIST_OFFSETS,
        "Questions for the end of a log, for the greatest timestamp and for a time wait up to 0.5 s, until consumers may see "
        "what was acknowledged with acks=0 or 1 before. DeleteRecords waits, too. Kafka answers by its high watermark of the "
        "moment.",
        unseen="the answers are alike",
    ),
    Difference(
        "list-offsets-bounded-lookups",
        ApiKey.LIST_OFFSETS,
        "A lookup by timestamp does a bounded amount of work. With `record.validation=header` a batch's newest timestamp may be "
        "later than any record in it, and each such batch must be opened. After 64 of them, 256 MiB of decompressed records or "
        "2,000,000 records, the answer is the first offset that was not looked at: no earlier record is as late as the "
        "timestamp. So is the first offset of a batch that cannot be opened, or that has a record whose time does not fit into "
        "64 bits. Kafka lets that time wrap around, corrects the newest timestamp at Produce, and its lookups have no bound.",
        unseen="it takes that much to look at: tests/storage/test_timestamp_lookups.py",
    ),
    Difference(
        "list-offsets-refused-lookups",
        ApiKey.LIST_OFFSETS,
        "Lookups by timestamp have turns at a storage node. One that waits for too long, or behind too many others, answers "
        "REQUEST_TIMED_OUT, as Kafka's in remote storage do. Other partitions of the request have their answers. A lookup whose "
        "leader dies or is replaced under it answers NOT_LEADER_OR_FOLLOWER, and is not sent to the next leader. Kafka's lookups "
        "in local segments have no such bound.",
        unseen="it takes more lookups than the bound: tests/storage/test_timestamp_lookups.py",
    ),
    Difference(
        "delete-records-anywhere",
        ApiKey.DELETE_RECORDS,
        "The leader is asked wherever it is. Kafka answers NOT_LEADER_OR_FOLLOWER for partitions that another broker leads.",
        unseen="it takes a second broker",
    ),
    Difference(
        "ends-of-epochs-anywhere",
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        "The leader is asked wherever it is. Kafka answers NOT_LEADER_OR_FOLLOWER for partitions that another broker leads.",
        unseen="it takes a second broker",
    ),
    Difference(
        "producers-anywhere",
        ApiKey.DESCRIBE_PRODUCERS,
        "The leader is asked wherever it is. Kafka answers NOT_LEADER_OR_FOLLOWER for partitions that another broker leads.",
        unseen="it takes a second broker",
    ),
    Difference(
        "producers-bounded",
        ApiKey.DESCRIBE_PRODUCERS,
        "At most 2,000 producers are in an answer of a leader, evenly for its partitions, open transactions first. In a request "
        "for more than 50 partitions, one that is named again is passed over. Kafka has no bound.",
        unseen="it takes too many producers: tests/storage/test_active_producers.py",
    ),
    # Topics and brokers
    Difference(
        "metadata-created-at-once",
        ApiKey.METADATA,
        "A topic that is created on demand is in the same answer if it exists within a second. Kafka answers "
        "UNKNOWN_TOPIC_OR_PARTITION first, and clients retry.",
    ),
    Difference(
        "metadata-unnamed",
        ApiKey.METADATA,
        "A topic with neither id nor name answers INVALID_TOPIC_EXCEPTION for that topic. Kafka answers UNKNOWN_SERVER_ERROR "
        "for all topics.",
    ),
    Difference(
        "metadata-internal-topics",
        ApiKey.METADATA,
        "Of the internal topics, `__consumer_offsets` and `__transaction_state` are created on demand. `__share_group_state` is "
        "not, since share groups are not built.",
        unseen="the first answers are alike",
    ),
    Difference(
        "metadata-controller",
        ApiKey.METADATA,
        "The controller id is the addressed broker. Kafka names any broker. Each broker forwards requests to the controller.",
        unseen="it takes a second broker",
    ),
    Difference(
        "metadata-former-leader",
        ApiKey.METADATA,
        "An idempotent producer that asks over the connection that it writes over is told of a former leader, in an earlier "
        "epoch, when another replica has taken over: the addressed broker stays the leader of those partitions. The gateway "
        "sends the batches to the true leader. The producer hears of it once it has written there too, has been quiet for six "
        "seconds, was refused, or fetches over the same connection. Told at once, librdkafka might sleep for a second (ADR 32). "
        "All other connections hear of the true leader at once.",
        unseen="it takes a broker that died: tests/gateway/test_former_leaders.py",
    ),
    Difference(
        "metadata-fenced-broker",
        ApiKey.METADATA,
        "A storage node that died is still named for five minutes (`PENSTOCK_FENCED_BROKER_S_MAX`), unless it is unregistered. "
        "A gateway goes on serving its address, and librdkafka closes its connection to a broker that vanishes. The node leads "
        "nothing, and its replicas are offline. Kafka names live brokers only. DescribeCluster names only those in both systems. "
        "Tools that ask for Metadata instead show the node too: `kafka-broker-api-versions`, and librdkafka's describe_cluster.",
        unseen="it takes a broker that died: tests/gateway/test_fenced_brokers.py",
    ),
    Difference(
        "metadata-no-broker",
        ApiKey.METADATA,
        "While no storage node is alive, all known nodes are named, since gateways keep their ports open. They lead nothing. "
        "Kafka names none, after which librdkafka may never ask again (its issue 5301).",
        unseen="no storage node is alive then: tests/gateway/test_metadata.py",
    ),
    Difference(
        "api-versions-features",
        ApiKey.API_VERSIONS,
        "The only features are group.version, whose only level is 1, and transaction.version with levels 0 to 2. "
        "metadata.version and kraft.version belong to KRaft, and the other features of Kafka are not built yet.",
    ),
    Difference(
        "update-features-one-level",
        ApiKey.UPDATE_FEATURES,
        "A level other than 1 of group.version, and any level of a feature other than transaction.version, answer "
        "INVALID_UPDATE_VERSION, since there is nothing to change. `group.coordinator.rebalance.protocols` decides which "
        "protocols groups may use.",
    ),
    Difference(
        "create-topics-colliding",
        ApiKey.CREATE_TOPICS,
        "Of two new topics whose names differ only by dot and underscore, the second answers INVALID_TOPIC_EXCEPTION, even when"
        " both are in one request. Kafka compares with existing topics only, and then has two topics whose metrics collide.",
    ),
    Difference(
        "topic-configs-own",
        ApiKey.CREATE_TOPICS,
        "`durability`, `record.validation` and `producer.ids.max` are configs of Penstock, with the prefix `log.` for brokers.",
    ),
    Difference(
        "topic-configs-min-isr",
        ApiKey.CREATE_TOPICS,
        "The default of min.insync.replicas comes from the software, and is 2 for topics with 3 replicas or more. Kafka, with "
        "eligible leader replicas, pins it as a dynamic default of all brokers.",
    ),
    Difference(
        "topic-configs-not-acted-on",
        ApiKey.CREATE_TOPICS,
        "A config that Kafka accepts and Penstock does not support, such as remote.log.copy.disable=true, answers "
        "INVALID_CONFIG instead of being ignored.",
    ),
    Difference(
        "delete-topics-by-id-and-name",
        ApiKey.DELETE_TOPICS,
        "A topic that is named by its id and once more by its name is answered twice. Kafka answers once. Neither deletes it.",
    ),
    Difference(
        "create-partitions-too-many",
        ApiKey.CREATE_PARTITIONS,
        "Too many partitions answer POLICY_VIOLATION, as in CreateTopics. Kafka tries to create them, and answers "
        "UNKNOWN_SERVER_ERROR.",
    ),
    Difference(
        "create-partitions-internal",
        ApiKey.CREATE_PARTITIONS,
        "An internal topic gets no more partitions: INVALID_TOPIC_EXCEPTION. Kafka adds them, and from their next start its "
        "brokers look for groups in the wrong partitions.",
    ),
    # Coordinators
    Difference(
        "find-coordinator-at-once",
        ApiKey.FIND_COORDINATOR,
        "A coordinator that appears within a second, while its topic is created, is in the same answer. Kafka answers "
        "COORDINATOR_NOT_AVAILABLE first, and clients retry.",
        unseen="it takes a cluster where no client has used a group yet",
    ),
    Difference(
        "find-coordinator-nobody",
        ApiKey.FIND_COORDINATOR,
        "There are no coordinators of share groups. The answer is UNSUPPORTED_VERSION, which clients take as final and show to "
        "their users.",
        unseen="Kafka would have to create its internal topics",
    ),
    Difference(
        "find-coordinator-leaderless",
        ApiKey.FIND_COORDINATOR,
        "While the partition of a group's shard has no leader, its first live replica is named, since any broker reaches the "
        "coordinator. Kafka answers COORDINATOR_NOT_AVAILABLE.",
        unseen="it takes a broker that died",
    ),
    Difference(
        "find-coordinator-moved",
        ApiKey.FIND_COORDINATOR,
        "After a gateway came or went, a broker may have another address. For a minute, each of its groups first gets "
        "COORDINATOR_NOT_AVAILABLE, since librdkafka would keep the old address while the broker id is the same.",
        unseen="it takes two gateways: tests/compat/clients/test_group_coordinator_failover.py",
    ),
    Difference(
        "groups-anywhere",
        ApiKey.JOIN_GROUP,
        "Any broker accepts requests about any group, and relays them to the group's coordinator. Kafka answers NOT_COORDINATOR"
        " for groups of other brokers.",
        unseen="it takes a second broker",
    ),
    Difference(
        "transactions-anywhere",
        ApiKey.ADD_PARTITIONS_TO_TXN,
        "Any broker accepts requests about any transactional id, and relays them to its coordinator. Kafka answers "
        "NOT_COORDINATOR for those of other brokers.",
        unseen="it takes a second broker",
    ),
    Difference(
        "add-partitions-of-transactions",
        ApiKey.ADD_PARTITIONS_TO_TXN,
        "From version 4 on partitions of `__transaction_state` are TOPIC_AUTHORIZATION_FAILED, as they are up to version 3. "
        "Nobody takes markers there.",
    ),
    Difference(
        "init-producer-id-of-a-zombie",
        ApiKey.INIT_PRODUCER_ID,
        "A producer that names an old epoch gets PRODUCER_FENCED at once. Kafka first aborts the transaction of the producer "
        "that replaced it.",
        unseen="tests/transaction_coordinator/stories/ has it",
    ),
    Difference(
        "epoch-of-fences",
        ApiKey.ADD_PARTITIONS_TO_TXN,
        "A client that names epoch 32,767 gets PRODUCER_FENCED, as it does from EndTxn: only fences have that epoch. Kafka takes "
        "it, and such a transaction cannot be ended (KAFKA-20090). A log that came from Kafka may hold one, and it is aborted.",
        unseen="tests/transaction_coordinator/test_transaction_regressions.py has it",
    ),
    Difference(
        "too-large-to-be-classic",
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        "A group whose members do not fit one record together does not become classic when its last member of the consumer "
        "protocol goes. Its classic members go on in the consumer protocol. In Kafka its dead member keeps its partitions.",
        unseen="tests/group_coordinator/conversion/ has it",
    ),
    Difference(
        "write-markers-anywhere",
        ApiKey.WRITE_TXN_MARKERS,
        "Any broker accepts it, and asks the partitions' leaders, or the group coordinators that own partitions of "
        "__consumer_offsets. Those of __transaction_state, which have no transactions, answer INVALID_TOPIC_EXCEPTION.",
        unseen="it takes a second broker",
    ),
    Difference(
        "pending-offsets-of-topics",
        ApiKey.TXN_OFFSET_COMMIT,
        "Pending offsets keep the id of their topic: where it was deleted, they do not count for the next one with its name. "
        "A partition is stable again as soon as a later commit or a deletion has replaced its pending offset. Kafka waits "
        "for the marker.",
        unseen="tests/group_coordinator/offsets/ has it",
    ),
    Difference(
        "groups-wait-for-coordinators",
        ApiKey.JOIN_GROUP,
        "While a group's coordinator is loading, or another takes over, requests that it has not seen wait for up to 3 s. "
        "Heartbeats wait for up to 1.5 s. Kafka answers COORDINATOR_LOAD_IN_PROGRESS or NOT_COORDINATOR at once.",
        unseen="it takes a broker that died",
    ),
    Difference(
        "join-named-and-static",
        ApiKey.JOIN_GROUP,
        "A member that rejoins with the id that it was given, and now also with an instance id, gets UNKNOWN_MEMBER_ID. Kafka "
        "answers UNKNOWN_SERVER_ERROR.",
    ),
    Difference(
        "join-repeated-protocol",
        ApiKey.JOIN_GROUP,
        "If a member names a protocol twice, the first mention counts. Kafka never answers.",
    ),
    Difference(
        "join-nameless-protocol",
        ApiKey.JOIN_GROUP,
        'A protocol with an empty name is called "". Kafka answers null from version 7 on.',
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
        "While the coordinator of some of a broker's groups cannot be reached, the answer is COORDINATOR_NOT_AVAILABLE, and "
        "clients retry. Kafka leaves out groups whose coordinator is moving.",
        unseen="it takes a broker that died",
    ),
    # Configs
    Difference(
        "broker-configs-of-processes",
        ApiKey.DESCRIBE_CONFIGS,
        "Listeners, log.dir and log.dirs have no value, since each process has its own.",
    ),
    Difference(
        "broker-configs-without-effect",
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        "Other broker configs without effect here are accepted by type and bounds alone, and their documentation says so "
        "(docs/use/configs.md). Kafka also refuses more than twice the threads of before, and classes that it does not find.",
    ),
    Difference(
        "broker-configs-not-acted-on",
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        "Broker configs that ask for a protection, a limit or a part that is missing here take their default only. They concern "
        "TLS, SASL, authorizers, policies, quota callbacks, providers of values, reporters of metrics, and "
        "remote storage. A node does not start with any other value, and to set one answers INVALID_CONFIG. A cluster that "
        "ignored them would lack what they promise. The message says what takes their place.",
    ),
    Difference(
        "broker-configs-changeable",
        ApiKey.DESCRIBE_CONFIGS,
        "Configs of the whole cluster can be changed while it runs, where Kafka's brokers read them at their start: "
        "num.partitions, default.replication.factor, auto.create.topics.enable, delete.topic.enable, "
        "auto.leader.rebalance.enable, leader.imbalance.*, and for groups group.*, offset.* and offsets.*. So can a node's "
        "replica.lag.time.max.ms, replica.fetch.max.bytes, replica.fetch.response.max.bytes, replica.fetch.min.bytes and "
        "replica.fetch.wait.max.ms. Listeners cannot be changed. group.min.session.timeout.ms and its max, which Kafka does not "
        "bound, are at least 1.",
    ),
    Difference(
        "broker-configs-protocols",
        ApiKey.DESCRIBE_CONFIGS,
        "group.coordinator.rebalance.protocols is classic,consumer, since streams groups are not built.",
    ),
    Difference(
        "group-configs-not-acted-on",
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        "A group's share.* and streams.* configs accept their defaults only, since there are no such groups yet. Any other "
        "value answers INVALID_CONFIG instead of being ignored.",
    ),
    Difference(
        "group-configs-removed",
        ApiKey.LIST_CONFIG_RESOURCES,
        "A group is listed while it has configs. Kafka goes on listing it after its last config is removed.",
    ),
    Difference(
        "broker-configs-revived",
        ApiKey.DESCRIBE_CONFIGS,
        "leader.imbalance.per.broker.percentage and replica.lag.max.messages, which earlier versions of Kafka had, mean the "
        "same as there. The latter is off unless it is set.",
    ),
    Difference(
        "broker-configs-balancing",
        ApiKey.DESCRIBE_CONFIGS,
        "`decommission`, of one broker, and `self.balancing.*`, of the cluster, are configs of Penstock.",
    ),
    Difference(
        "default-replication-factor",
        ApiKey.DESCRIBE_CONFIGS,
        "default.replication.factor is 3 unless it is set, but no more than the number of storage nodes. Kafka's is 1. The same"
        " holds for offsets.topic.replication.factor. Kafka's is 3 even with fewer brokers, and then no group can be served.",
    ),
    Difference(
        "broker-configs-coarse",
        ApiKey.DESCRIBE_CONFIGS,
        "log.retention.hours and similar configs keep the value that the broker was started with. Kafka describes their default"
        " once a config that overrides them, such as log.retention.ms, has been changed at run time.",
        unseen="it takes a broker that was started with them: tests/compat/differential/test_broker_configs.py",
    ),
    Difference(
        "cleaner-rate-of-nothing",
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        "log.cleaner.io.max.bytes.per.second=0 means no limit, as a negative value does in both. Kafka's cleaner then sleeps "
        "for ever after its first bytes.",
        unseen="the answers are the same: tests/storage/test_log_cleaner.py",
    ),
    Difference(
        "configs-of-others",
        ApiKey.DESCRIBE_CONFIGS,
        "Client metrics have no configs yet. They answer INVALID_REQUEST, here and when altered.",
    ),
    Difference(
        "broker-loggers",
        ApiKey.DESCRIBE_CONFIGS,
        "A broker's loggers are named for what they concern, such as `requests` and `replication`. Kafka's names of them, "
        "such as `kafka.request.logger`, mean the same loggers. Two processes have a broker's loggers: the gateway that serves "
        "its address, and its storage node. A gateway stands for several broker ids, so a level that is set for one holds for "
        "all of them there. Controllers, coordinators and quota managers are no brokers: `controller`, `elections`, `groups`, "
        "`transactions`, `coordinators` and `quotas` are set in all of them, whichever broker is named. The level that is "
        "described is the one that lets the most through. If one of these processes does not answer, the change is "
        "REQUEST_TIMED_OUT, and the others have the new level.",
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
        "The directory of a future replica is remembered for existing partitions only. Kafka also remembers it for topics that "
        "do not exist.",
        unseen="the answers are the same",
    ),
    Difference(
        "reassign-another-target",
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        "A new target during a reassignment starts from the original replicas, as KIP-455 says. Replicas that only the former "
        "target added are removed at once, and a cancellation restores the original. Kafka starts from all present replicas. A "
        "replica that was to be removed is removed even if the new target names it. A cancellation may leave more replicas "
        "than before.",
        unseen="it takes three brokers: tests/compat/differential/test_reassignment_on_three_nodes.py",
    ),
    Difference(
        "unregister-alive",
        ApiKey.UNREGISTER_BROKER,
        "A live node answers INVALID_REQUEST. Kafka removes it from the list, and it runs on outside of the cluster until it is"
        " restarted.",
        unseen="it takes three brokers: tests/compat/differential/test_reassignment_on_three_nodes.py",
    ),
    Difference(
        "alter-configs-unknown-operation",
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        "An operation that does not exist answers INVALID_REQUEST. Kafka answers UNKNOWN_SERVER_ERROR.",
    ),
    Difference(
        "alter-configs-unknown-broker-config",
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        "A broker config that Kafka has removed answers INVALID_CONFIG, with its successors. Kafka keeps it like any name that "
        "it does not know. To append to an unknown broker config answers INVALID_CONFIG. Kafka answers UNKNOWN_SERVER_ERROR.",
    ),
    Difference(
        "alter-configs-repeated-resource",
        ApiKey.ALTER_CONFIGS,
        "A resource that is named twice answers INVALID_REQUEST. Kafka never answers it, nor any later request on that "
        "connection.",
    ),
    Difference(
        "quotas-repeated-entity",
        ApiKey.ALTER_CLIENT_QUOTAS,
        "An entity that is named twice answers INVALID_REQUEST, and is not changed. Kafka answers the same, and makes the first "
        "of the changes.",
    ),
    Difference(
        "quotas-finite",
        ApiKey.ALTER_CLIENT_QUOTAS,
        "A quota that is not a number, and a `request_percentage` or `controller_mutation_rate` that is infinite, answers "
        "INVALID_REQUEST. Kafka stores it.",
    ),
    Difference(
        "quotas-connections",
        ApiKey.ALTER_CLIENT_QUOTAS,
        "A `connection_creation_rate` below 1 answers INVALID_REQUEST. Kafka stores values up to 0.000001, and then refuses each "
        "connection of that address.",
    ),
    Difference(
        "quotas-addresses",
        ApiKey.ALTER_CLIENT_QUOTAS,
        "An ip entity is an address in its usual spelling. A name of a host and any other spelling answer INVALID_REQUEST. Kafka "
        "resolves names once, where a quota is set.",
    ),
    Difference(
        "sasl-frames",
        ApiKey.SASL_AUTHENTICATE,
        "Before a client has authenticated, a frame has 16 KiB at most; Kafka takes 512 KiB. It must authenticate within "
        "`PENSTOCK_AUTHENTICATION_S_MAX`. An unknown user of SCRAM is asked for a proof as any other; Kafka denies it at once.",
        unseen="the scenarios speak to a listener without SASL: tests/gateway/test_sasl_listener.py",
    ),
    Difference(
        "scram-salts",
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        "A salt of less than 12 bytes answers UNACCEPTABLE_CREDENTIAL. Kafka stores it.",
    ),
    Difference(
        "scram-names",
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        "A name that SASLprep (RFC 4013) forbids or would change answers UNACCEPTABLE_CREDENTIAL, since not all clients apply "
        "it. So does a name of more than 1,024 characters. Kafka stores both.",
    ),
    Difference(
        "scram-users",
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        "A request that changes the credentials of more than 60 users answers INVALID_REQUEST for each of them, since they are "
        "written together.",
    ),
    Difference(
        "quorum-in-etcd",
        ApiKey.DESCRIBE_QUORUM,
        "etcd holds the metadata, so there is no quorum of Penstock's own. The leader is the elected controller, the voters are "
        "it and its standbys, offsets are revisions of etcd, and the epoch is the revision of the election. A standby that does "
        "not answer within a second has offset -1. Controllers have no directory ids and no listeners, since they do not speak "
        "Kafka's protocol. No observers are listed.",
    ),
    Difference(
        "describe-partitions-unnamed",
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        "A topic without a name answers INVALID_TOPIC_EXCEPTION. Kafka answers UNKNOWN_SERVER_ERROR.",
    ),
    Difference(
        "describe-partitions-eligible-leaders",
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        "Eligible leader replicas are always empty, since the ISR of a partition is never empty.",
        unseen="it takes brokers that died",
    ),
)
