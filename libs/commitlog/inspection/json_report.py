"""Findings and contents for programs. Offsets, byte counts and ms are numbers; ids are text as Kafka writes them."""

from libs.commitlog.inspection.batches import Damage, InspectedBatch
from libs.commitlog.inspection.directory import InspectedDirectory
from libs.commitlog.inspection.findings import Findings
from libs.commitlog.inspection.partition import InspectedPartition, InspectedSegment
from libs.commitlog.partition_log.directory import encode_id

Json = dict[str, object]


def report(directory: InspectedDirectory, findings: Findings) -> Json:
    return {
        "path": directory.path,
        "kind": "log directory" if directory.is_log_directory else "partition",
        "process_id": directory.holder,
        "properties": directory.properties,
        "stopped_cleanly": directory.stopped_cleanly if directory.is_log_directory else None,
        "retired": directory.retired,
        "set_aside": directory.set_aside,
        "partitions": [_partition(partition) for partition in directory.partitions],
        "problems": findings.problems,
        "findings": [
            {"severity": str(finding.severity), "path": finding.path, "position": finding.position, "words": finding.message}
            for finding in findings.entries
        ],
        "findings_left_out": findings.left_out,
    }


def _partition(partition: InspectedPartition) -> Json:
    point = partition.resume_point
    return {
        "name": partition.name,
        "path": partition.path,
        "topic_id": encode_id(partition.topic_id) if partition.topic_id is not None else None,
        "first_offset": partition.first_offset,
        "end_offset": partition.end_offset,
        "bytes": partition.size,
        "resume_point": point.offset if point is not None else None,
        "checkpoints": partition.checkpoints,
        "leader_epochs": []
        if partition.epochs is None
        else [{"epoch": e, "start_offset": s} for e, s in partition.epochs.entries()],
        "segments": [_segment(segment) for segment in partition.segments],
        "producers": [
            {
                "producer_id": producer_id,
                "epoch": entry.epoch,
                "last_sequence": entry.batches[-1].last_sequence if entry.batches else None,
                "last_offset": entry.batches[-1].last_offset if entry.batches else None,
                "cached_batches": len(entry.batches),
                "last_timestamp": entry.last_timestamp,
                "transaction_first_offset": entry.transaction_first_offset if entry.transaction_first_offset >= 0 else None,
            }
            for producer_id, entry in partition.producers.items()
        ],
        "leftovers": partition.leftovers,
    }


def _segment(segment: InspectedSegment) -> Json:
    return {
        "base_offset": segment.base_offset,
        "next_offset": segment.next_offset,
        "path": segment.path,
        "bytes": segment.size,
        "index_entries": segment.index_entries,
        "time_entries": segment.time_entries,
        "aborted_transactions": segment.aborted_transactions,
        "greatest_timestamp": segment.greatest_timestamp,
        "batches": segment.batches,
        "records": segment.records,
        "damaged_bytes": segment.damaged_bytes,
    }


def batch(segment: InspectedSegment, region: InspectedBatch | Damage) -> Json:
    """One line of `inspect --batches --json`."""
    if isinstance(region, Damage):
        return {"segment": segment.base_offset, "position": region.position, "end": region.end, "damage": region.message}
    header = region.header
    return {
        "segment": segment.base_offset,
        "position": region.position,
        "bytes": header.size,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.record_count,
        "leader_epoch": header.leader_epoch,
        "codec": header.codec,
        "attributes": header.attributes,
        "max_timestamp": header.max_timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "crc_matches": region.crc_matches,
    }
