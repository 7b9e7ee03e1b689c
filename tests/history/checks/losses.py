"""Acknowledged records that are gone."""

from collections.abc import Iterator

from tests.history.finding import Finding
from tests.history.log import Evidence


def lost_writes(evidence: Evidence) -> Iterator[Finding]:
    """Readers passed the place where it is. A tail that nobody has read is not lost."""
    reader_at: dict[tuple[str, int], int] = {}
    for call in evidence.calls:
        for value in sorted(evidence.committed_values(call) - evidence.polled):
            key = evidence.key_of[value]
            log = evidence.log(key)
            indexes = log.indexes_of.get(value)
            if indexes is None or indexes[-1] > log.read_up_to:
                continue
            beyond = reader_at.setdefault((key, log.read_up_to), log.offsets[log.read_up_to])
            offset = log.offsets[indexes[-1]]
            reader = next(evidence.read[other] for other in log.at[beyond] if other in evidence.read)
            says = f"{value} was acknowledged at offset {offset}; nobody read it, though offset {beyond} was read"
            yield Finding("lost-write", says, key, (value,), (call, reader))


def unseen(evidence: Evidence) -> Iterator[Finding]:
    if not evidence.history.read_to_end:
        return
    for call in evidence.calls:
        for value in sorted(evidence.committed_values(call) - evidence.polled):
            says = f"{value} was acknowledged and is in nothing that was read, to the very end"
            yield Finding("unseen", says, evidence.key_of[value], (value,), (call,))
