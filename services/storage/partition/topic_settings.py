"""The effect of a topic's configs on its logs, batches and replicas on this node."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from libs.cluster.configs.resolve import TopicConfig, effective_topic_config
from libs.cluster.image import ClusterImage
from libs.cluster.topic_names import INTERNAL_TOPICS
from libs.commitlog.model.config import LogConfig
from libs.wire.record_batches.batch_layout import Codec
from libs.wire.record_batches.batches import ProduceLimits
from libs.wire.record_batches.opened_batches import OpeningRules

CODECS = {
    "producer": -1,
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
"""Codecs by `compression.type`. -1: the codec that a batch comes with."""

ANY_MS: Final = (1 << 63) - 1


def log_config(config: TopicConfig) -> LogConfig:
    return LogConfig(
        segment_bytes=config.segment_bytes,
        segment_ms=min(config.segment_ms, config.max_compaction_lag_ms) if config.compacted else config.segment_ms,
        segment_jitter_ms=config.segment_jitter_ms,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        preallocate=config.preallocate,
        producer_ids_max=config.producer_ids_max,
    )


def produce_limits(config: TopicConfig) -> ProduceLimits:
    return ProduceLimits(
        max_message_bytes=config.max_message_bytes,
        segment_bytes=config.segment_bytes,
        log_append_time=config.log_append_time,
        before_max_ms=config.message_timestamp_before_max_ms,
        after_max_ms=config.message_timestamp_after_max_ms,
    )


def opening_rules(config: TopicConfig) -> OpeningRules | None:
    """The rules by which batches are opened. None: batches of this topic are never opened."""
    codec = CODECS[config.compression_type]
    compacted = "compact" in config.cleanup_policy
    every_batch = compacted or config.record_validation == "full"
    if not every_batch and codec < 0:
        return None
    levels = {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }
    return OpeningRules(
        every_batch=every_batch,
        compacted=compacted,
        codec=codec,
        level=levels.get(Codec(codec)) if codec >= 0 else None,
        log_append_time=config.log_append_time,
        before_max_ms=config.message_timestamp_before_max_ms,
        after_max_ms=config.message_timestamp_after_max_ms,
        max_message_bytes=config.max_message_bytes,
        segment_bytes=config.segment_bytes,
    )


class TopicConfigs:
    """The configs in force on this node, computed once for all topics with the same overrides.

    One computation takes 0.4 ms, and a change of any config asks for those of each partition, on the event loop. Timestamps of
    internal topics have no bounds: a coordinator's clock need not agree with its leader's, and no client could mend a refusal.
    """

    def __init__(self, node_id: int, static: Mapping[str, str]) -> None:
        self._node_id = node_id
        self._static = static
        self._image = ClusterImage()
        self._cached: dict[tuple[bool, frozenset[tuple[str, str]]], TopicConfig] = {}

    def follow(self, image: ClusterImage) -> set[tuple[str, str]]:
        """The resources, as (kind, name), whose overrides changed."""
        before, after = self._image.overrides_by_resource, image.overrides_by_resource
        self._image = image
        if after is before:
            return set()
        self._cached = {}
        return {resource for resource in {**before, **after} if before.get(resource) != after.get(resource)}

    def of(self, topic: str) -> TopicConfig:
        internal = topic in INTERNAL_TOPICS
        own = internal, frozenset(self._image.overrides("topic", topic).items())
        config = self._cached.get(own)
        if config is None:
            config = effective_topic_config(self._image, topic, broker_id=self._node_id, static=self._static)
            if internal:
                config = replace(config, message_timestamp_before_max_ms=ANY_MS, message_timestamp_after_max_ms=ANY_MS)
            self._cached[own] = config
        return config
