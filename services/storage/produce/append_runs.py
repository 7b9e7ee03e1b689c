"""Runs: consecutive batches of one call for one partition, which become one append (ADR 39).

What does not depend on the batch is asked once, by the caller. Each batch keeps the checks of its own: bounds, CRC, counts,
timestamps, and its producer's sequence. The first batch that is no plain success ends the run, untouched. It takes the path of
single batches, which finds again what is to be told of it.
"""

from typing import Any

from libs.commitlog.partition_log.log import BatchMeta
from libs.commitlog.producers.producer_state import FRESH
from libs.wire.record_batches.batches import TRANSACTIONAL, BatchError, patch, set_log_append_time, validate_produce
from services.storage.partition.append_answers import Answer, appended
from services.storage.partition.partition import Partition
from services.storage.partition.pending_append import AppendCall, StagedRun

PARTITION_FIELDS = 4
"""Those of an append that names no owner."""


def continues(part: list[Any], before: list[Any]) -> bool:
    """Whether a batch goes where the one before it goes, by the same leader epoch, and none of them names an owner."""
    return part[1] == before[1] and part[0] == before[0] and part[2] == before[2] and len(part) == PARTITION_FIELDS == len(before)


def stage_run(
    partition: Partition,
    request: AppendCall,
    slot: int,
    parts: list[list[Any]],
    payload: memoryview,
    start: int,
    now_ms: int,
    *,
    takes_producers: bool,
) -> tuple[int, int]:
    """Gives offsets to the batches from `slot` on, up to the first that is none of the run. Returns how many these are, and where
    their bytes end. (0, `start`): nothing was staged.

    `parts` are those of the call, `payload` its bytes, `start` the position of the first batch. `takes_producers`: a batch may
    have a producer id, since nothing waits or returns here.
    """
    first, limits, log = parts[slot], partition.limits, partition.log
    producers, log_start = log.producers, log.log_start_offset
    epoch, base, end = partition.replica.leader_epoch, partition.next_offset, start
    time_ms = now_ms if limits.log_append_time else -1
    answers: list[Answer] = []
    metas: list[BatchMeta] = []
    try:
        for part in parts[slot:]:
            if not continues(part, first):
                break
            size: int = part[3]
            view = payload[end : end + size]
            try:
                header = validate_produce(view, limits, now_ms)
                max_timestamp = header.max_timestamp if time_ms < 0 else time_ms
                if header.producer_id >= 0:
                    if not takes_producers or header.attributes & TRANSACTIONAL:
                        break
                    if not producers.record_next(header, base, max_timestamp):
                        if producers.check(header) is not FRESH:
                            break
                        producers.record_stamped(header, base, max_timestamp)
            except BatchError:
                break
            patch(view, base, epoch)
            if time_ms >= 0:
                set_log_append_time(view, time_ms)
            last = base + header.last_offset_delta
            metas.append(BatchMeta(base, last, size, max_timestamp, last, epoch))
            answers.append(appended(base, time_ms, log_start))
            base, end = last + 1, end + size
    finally:
        # Also after a fault: the producers of the batches before it are recorded, and metas describe bytes of the buffers.
        if answers:
            partition.next_offset = base
            partition.batches += metas
            partition.buffers.append(payload[start:end])
            partition.staged.append(StagedRun(request, slot, base, answers))
    return len(answers), end
