"""Kafka's `bootstrap.checkpoint`: the records with which the first controller of a new cluster begins. `kafka-storage.sh format`
writes one with the levels of features, and more records are put into it here."""

from collections.abc import Iterable, Sequence

from libs.commitlog.files.durable_files import read_file, replace_file
from libs.commitlog.files.filesystem import FileSystem
from libs.commitlog.partition_log.directory import find_properties
from libs.wire.record_batches.batches import BatchError, iter_batches
from libs.wire.record_batches.records import Record, build_batch, iter_records
from services.controller.core.migration.kraft_records import FeatureLevelSet, UnreadableRecord, decode
from services.controller.migration.kafka_directories import BOOTSTRAP
from services.controller.migration.metadata_log import DIRECTORY
from services.controller.recovery.store_contents import RecoveryRefused

RECORDS_OF_A_BATCH = 500


def check_unused(fs: FileSystem, metadata_dir: str, cluster_id: str) -> None:
    """Raises RecoveryRefused unless `metadata_dir` was formatted by Kafka for the cluster, and no Kafka has run there since."""
    if not fs.exists(f"{metadata_dir}/{BOOTSTRAP}"):
        raise RecoveryRefused(
            f"{metadata_dir} has no {BOOTSTRAP}: format it first, as metadata.log.dir, with kafka-storage.sh format"
        )
    formatted_for = find_properties(fs, metadata_dir).get("cluster.id", "")
    if formatted_for != cluster_id:
        raise RecoveryRefused(
            f"{metadata_dir} was formatted for cluster {formatted_for or 'unknown'}, "
            f"and the logs are those of cluster {cluster_id}: format a new metadata.log.dir with --cluster-id {cluster_id}"
        )
    if fs.exists(f"{metadata_dir}/{DIRECTORY}/quorum-state"):
        raise RecoveryRefused(
            f"a Kafka has run with {metadata_dir}: it reads {BOOTSTRAP} only once. Format a new metadata.log.dir"
        )


def add_records(fs: FileSystem, metadata_dir: str, values: Iterable[bytes], now_ms: int) -> None:
    """Puts records behind those of the file, or in the place of those that were added before. Raises RecoveryRefused, OSError."""
    file = f"{metadata_dir}/{BOOTSTRAP}"
    head, levels, foot = _parts(read_file(fs, file) or b"", file)
    content, offset = bytearray(), 0
    added = [Record(None, value, now_ms) for value in [*levels, *values]]
    batches = [added[at : at + RECORDS_OF_A_BATCH] for at in range(0, len(added), RECORDS_OF_A_BATCH)]
    for records, control in [(head, True), *[(batch, False) for batch in batches], (foot, True)]:
        content += build_batch(records, base_offset=offset, leader_epoch=0, control=control)
        offset += len(records)
    replace_file(fs, file, bytes(content))


def _parts(content: bytes, file: str) -> tuple[Sequence[Record], list[bytes], Sequence[Record]]:
    """The records of the file's header, the values of its levels of features, and the records of its footer."""
    try:
        batches = [
            (batch.header.is_control, list(iter_records(batch.view))) for batch in iter_batches(content) if batch.crc_matches
        ]
        controls = [records for is_control, records in batches if is_control]
        values = [each.value for is_control, records in batches if not is_control for each in records if each.value is not None]
        levels = [value for value in values if isinstance(decode(value), FeatureLevelSet)]
    except (BatchError, UnreadableRecord) as error:
        raise RecoveryRefused(f"{file} cannot be read: {error}") from error
    if len(controls) != 2 or not levels:
        raise RecoveryRefused(f"{file} has {len(controls)} control batches and {len(levels)} levels of features: format it anew")
    return controls[0], levels, controls[1]
