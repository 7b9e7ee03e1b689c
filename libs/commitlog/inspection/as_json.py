"""What was seen, for programs. Offsets, byte counts and ms are numbers; ids are text as Kafka writes them."""

from libs.commitlog.directory import encode_id
from libs.commitlog.inspection.batches import Damage, SeenBatch
from libs.commitlog.inspection.directory import DirectorySeen
from libs.commitlog.inspection.findings import Findings
from libs.commitlog.inspection.partition import PartitionSeen, SegmentSeen

Json = dict[str, object]


def report(seen: DirectorySeen, findings: Findings) -> Json:
    return {
        "path": seen.path,
        "kind": "log directory" if seen.is_log_directory else "partition",
        "process_id": seen.holder,
        "properties": seen.properties,
        "stopped_cleanly": seen.stopped_cleanly if seen.is_log_directory else None,
        "retired": seen.retired,
        "set_aside": seen.set_aside,
        "partitions": [_partition(partition) for partition in seen.partitions],
        "problems": findings.problems,
        "findings": [
            {"severity": str(one.severity), "path": one.path, "position": one.position, "words": one.words}
            for one in findings.found
        ],
        "findings_left_out": findings.left_out,
    }


def _partition(seen: PartitionSeen) -> Json:
    point = seen.resume_point
    return {
        "name": seen.name,
        "path": seen.path,
        "topic_id": encode_id(seen.topic_id) if seen.topic_id is not None else None,
        "first_offset": seen.first_offset,
        "end_offset": seen.end_offset,
        "bytes": seen.size,
        "resume_point": point.offset if point is not None else None,
        "checkpoints": seen.checkpoints,
        "leader_epochs": [] if seen.epochs is None else [{"epoch": e, "start_offset": s} for e, s in seen.epochs.entries()],
        "segments": [_segment(segment) for segment in seen.segments],
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
            for producer_id, entry in seen.producers.items()
        ],
        "leftovers": seen.leftovers,
    }


def _segment(seen: SegmentSeen) -> Json:
    return {
        "base_offset": seen.base_offset,
        "next_offset": seen.next_offset,
        "path": seen.path,
        "bytes": seen.size,
        "index_entries": seen.index_entries,
        "time_entries": seen.time_entries,
        "aborted_transactions": seen.aborted_transactions,
        "greatest_timestamp": seen.greatest_timestamp,
        "batches": seen.batches,
        "records": seen.records,
        "damaged_bytes": seen.damaged_bytes,
    }


def batch(segment: SegmentSeen, one: SeenBatch | Damage) -> Json:
    """One line of `inspect --batches --json`."""
    if isinstance(one, Damage):
        return {"segment": segment.base_offset, "position": one.position, "end": one.end, "damage": one.words}
    header = one.header
    return {
        "segment": segment.base_offset,
        "position": one.position,
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
        "crc_matches": one.crc_matches,
    }
