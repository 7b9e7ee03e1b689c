"""Every topic config of Kafka 4.2, and two of Penstock's own. A config that is not supported yet is refused when it is set."""

from typing import Final

from libs.cluster.configs.values import (
    LONG_MAX,
    Check,
    ConfigDef,
    ConfigType,
    at_least,
    between,
    between_or,
    list_of,
    one_of,
    throttled_replicas,
)

INT, LONG, BOOLEAN, STRING = ConfigType.INT, ConfigType.LONG, ConfigType.BOOLEAN, ConfigType.STRING
WEEK_MS: Final = 7 * 24 * 3_600_000
MIB: Final = 1 << 20


def _served(name: str, kind: ConfigType, default: object, doc: str, check: Check | None, *synonyms: str) -> ConfigDef:
    return ConfigDef(name, kind, str(default), doc, check, synonyms=synonyms)


def _later(name: str, kind: ConfigType, default: object, doc: str, check: Check | None, *synonyms: str) -> ConfigDef:
    return ConfigDef(name, kind, str(default), doc, check, synonyms=synonyms, served=False)


_SEGMENTS = (
    _served("segment.bytes", INT, 1 << 30, "A log file of this size is closed and a new one begins. Retention removes whole "
            "files.", at_least(MIB), "log.segment.bytes"),
    _served("segment.ms", LONG, WEEK_MS, "A log file is closed after this time even when it is not full, so that retention can "
            "remove old records of a quiet topic.", at_least(1), "log.roll.ms", "log.roll.hours"),
    _served("segment.jitter.ms", LONG, 0, "The most that is taken off segment.ms at random, so that topics do not all roll at "
            "once.", at_least(0), "log.roll.jitter.ms", "log.roll.jitter.hours"),
    _served("segment.index.bytes", INT, 10 * MIB, "The largest size of an offset or time index; a full index closes its log "
            "file.", at_least(4), "log.index.size.max.bytes"),
    _served("index.interval.bytes", INT, 4096, "The bytes of log between two index entries. A smaller value finds offsets "
            "faster and makes larger indexes.", at_least(0), "log.index.interval.bytes"),
    _served("preallocate", BOOLEAN, "false", "Reserve a log file's disk space when it is created.", None, "log.preallocate"),
    ConfigDef("internal.segment.bytes", INT, None, "For tests only: segment.bytes without its lower bound.", at_least(64),
              hidden=True),
)  # fmt: skip

_RETENTION = (
    ConfigDef("cleanup.policy", ConfigType.LIST, "delete", "What happens to old records. delete removes them by age and size, "
              "compact keeps the last record of each key.", list_of("compact", "delete"),
              synonyms=("log.cleanup.policy",)),
    _served("retention.ms", LONG, WEEK_MS, "Closed log files whose newest record is older than this are removed; -1 keeps them "
            "for ever.", at_least(-1), "log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    _served("retention.bytes", LONG, -1, "Each partition's oldest log files are removed while the rest still holds this many "
            "bytes; -1 sets no limit.", None, "log.retention.bytes"),
    _served("file.delete.delay.ms", LONG, 60_000, "How long a removed log file stays on disk.", at_least(0),
            "log.segment.delete.delay.ms"),
    _served("delete.retention.ms", LONG, 86_400_000, "How long compaction keeps the mark that a key was deleted.", at_least(0),
            "log.cleaner.delete.retention.ms"),
    _served("min.compaction.lag.ms", LONG, 0, "A record younger than this is not compacted away.", at_least(0),
            "log.cleaner.min.compaction.lag.ms"),
    _served("max.compaction.lag.ms", LONG, LONG_MAX, "A record older than this becomes eligible for compaction, however little "
            "there is to clean.", at_least(1), "log.cleaner.max.compaction.lag.ms"),
    _served("min.cleanable.dirty.ratio", ConfigType.DOUBLE, 0.5, "The share of a log that must be uncompacted before it is worth "
            "compacting.", between(0, 1), "log.cleaner.min.cleanable.ratio"),
)  # fmt: skip

_DURABILITY = (
    ConfigDef("durability", STRING, "synced", "What the acknowledgement of an acks=all write means. synced: the write is on the "
              "disks of all in-sync replicas. replicated: it is in the memory of all of them, as in Kafka. Penstock's own.",
              one_of("synced", "replicated"), "high", synonyms=("log.durability",)),
    _served("min.insync.replicas", INT, 1, "How many replicas must be in sync for acks=all writes to be accepted. The default "
            "is 2 for topics with 3 replicas or more.", at_least(1), "min.insync.replicas"),
    _served("flush.messages", LONG, LONG_MAX, "Force records to disk after this many. Topics with durability=synced do not need "
            "it.", at_least(1), "log.flush.interval.messages"),
    _served("flush.ms", LONG, LONG_MAX, "Force records to disk after this time. Topics with durability=synced do not need it.",
            at_least(0), "log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    _served("unclean.leader.election.enable", BOOLEAN, "false", "Let a replica that is not in sync lead when no other is left; "
            "acknowledged records may be lost.", None, "unclean.leader.election.enable"),
    _served("leader.replication.throttled.replicas", ConfigType.LIST, "", "Replicas whose leader's replication traffic is "
            "limited: partition:broker pairs, or *.", throttled_replicas),
    _served("follower.replication.throttled.replicas", ConfigType.LIST, "", "Replicas whose own replication traffic is limited: "
           "partition:broker pairs, or *.", throttled_replicas),
)  # fmt: skip

_RECORDS = (
    _served("max.message.bytes", INT, 1_048_588, "The largest record batch, as it arrives, that the topic takes.", at_least(0),
            "message.max.bytes"),
    _served("message.timestamp.type", STRING, "CreateTime", "Whether a record's timestamp is the producer's or the time at which "
            "the leader stored it.", one_of("CreateTime", "LogAppendTime"), "log.message.timestamp.type"),
    _served("message.timestamp.before.max.ms", LONG, LONG_MAX, "A record whose own timestamp is further in the past than this "
            "is refused.", at_least(0), "log.message.timestamp.before.max.ms"),
    _served("message.timestamp.after.max.ms", LONG, 3_600_000, "A record whose own timestamp is further in the future than this "
            "is refused.", at_least(0), "log.message.timestamp.after.max.ms"),
    ConfigDef("record.validation", STRING, "header", "How closely a leader checks a batch. header: its CRC, counts, sequences "
              "and newest timestamp. full: also each record in it, as Kafka does. Penstock's own.",
              one_of("header", "full"), synonyms=("log.record.validation",)),
    ConfigDef("producer.ids.max", INT, "100000", "How many idempotent producers a partition remembers, unless their transactions "
              "are open. Beyond that it forgets about the longest silent. Lowered far, it keeps recent ones: of 100,000 that "
              "became 1,000, all were among the latest 15,000. Penstock's own.",
              between(1, 1_000_000), synonyms=("log.producer.ids.max",)),
    ConfigDef("compression.type", STRING, "producer", "The codec that records are stored with; producer keeps the codec of "
              "the producer.", one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
              synonyms=("compression.type",)),
    _served("compression.gzip.level", INT, -1, "The level when compression.type is gzip.", between_or(1, 9, -1),
            "compression.gzip.level"),
    _served("compression.lz4.level", INT, 9, "The level when compression.type is lz4. As in Kafka, 9 is the fast compressor. All "
            "other levels are the slower one, whose highest level is 12.", between(1, 17), "compression.lz4.level"),
    _served("compression.zstd.level", INT, 3, "The level when compression.type is zstd.", between(-131_072, 22),
            "compression.zstd.level"),
)  # fmt: skip

_TIERED = (
    _later("remote.storage.enable", BOOLEAN, "false", "Keep older log files in remote storage.", None),
    _later("remote.log.copy.disable", BOOLEAN, "false", "Copy no further log files to remote storage.", None),
    _later("remote.log.delete.on.disable", BOOLEAN, "false", "Remove remote log files when remote storage is turned off.", None),
    _later("local.retention.ms", LONG, -2, "How long log files that are in remote storage stay local; -2 is retention.ms.",
           at_least(-2), "log.local.retention.ms"),
    _later("local.retention.bytes", LONG, -2, "How much of a partition that is in remote storage stays local; -2 is "
           "retention.bytes.", at_least(-2), "log.local.retention.bytes"),
)  # fmt: skip

TOPIC_CONFIGS: Final[dict[str, ConfigDef]] = {
    config.name: config for config in sorted(_SEGMENTS + _RETENTION + _DURABILITY + _RECORDS + _TIERED, key=lambda c: c.name)
}
