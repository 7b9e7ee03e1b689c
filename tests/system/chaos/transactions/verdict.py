"""The judge of transfers, of their copies, and of each read of committed records."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tests.system.chaos.transactions.committed_reads import CommittedRead, Reading, Record, digest
from tests.system.chaos.transactions.tellers import ABORTED, COMMITTED

WRONG = ("torn", "lost", "not_aborted", "not_copied", "copied_twice", "torn_reads", "changed_reads")


def verdict(
    outcomes: Mapping[str, str], last: Reading, copies: Mapping[str, Sequence[str]], reads: Sequence[CommittedRead]
) -> dict[str, list[str]]:
    """What is wrong, by name of the transfer, by copied record, and by read. `last`: a read once all transactions had ended."""
    records = Counter(value for of_partition in last.records for _, value in of_partition)
    seen = {value.split()[0] for value in records}
    copied = {topic: Counter(values) for topic, values in copies.items()}
    return {
        "torn": last.torn(),
        "lost": [name for name, outcome in outcomes.items() if outcome == COMMITTED and name not in seen],
        "not_aborted": [name for name in sorted(seen) if outcomes.get(name) == ABORTED],
        "not_copied": [f"{topic}: {value}" for topic, values in copied.items() for value in (records - values).elements()],
        "copied_twice": [f"{topic}: {value}" for topic, values in copied.items() for value in (values - records).elements()],
        "torn_reads": [f"{read.client} to {read.ends}: {read.torn}" for read in reads if read.torn],
        "changed_reads": changed_reads(last.records, reads),
    }


def shortfall(found: Mapping[str, Any]) -> str | None:
    """Why a run proves too little: what no client, or no process, has done."""
    counts = {"faults": sum(found["faults"].values())}
    for client, outcomes in found["transfers"].items():
        counts |= {f"{outcome} by {client}": outcomes.get(outcome, 0) for outcome in (COMMITTED, ABORTED)}
    counts |= {f"reads by {client}": count for client, count in found["reads"].items()}
    return ", ".join(f"no {name}" for name, count in counts.items() if not count) or None


def changed_reads(records: Sequence[Sequence[Record]], reads: Sequence[CommittedRead]) -> list[str]:
    """The reads that did not see what the last one, of `records`, saw up to their ends."""
    prefixes = [_Prefixes(of_partition) for of_partition in records]
    return [
        f"{read.client} to {read.ends}"
        for read in reads
        if [prefix.digest(end) for prefix, end in zip(prefixes, read.ends, strict=True)] != list(read.digests)
    ]


class _Prefixes:
    """The digests of a partition's records up to each offset."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._offsets = [offset for offset, _ in records]
        self._digests = [0]
        for record in records:
            self._digests.append(digest([record], self._digests[-1]))

    def digest(self, end: int) -> int:
        return self._digests[bisect_left(self._offsets, end)]
