"""Runs every check over a history."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.history.calls import Call, pair
from tests.history.checks.cycles import read_cycles, write_cycles
from tests.history.checks.losses import lost_writes, unseen
from tests.history.checks.offsets import duplicates, inconsistent_offsets
from tests.history.checks.polls import poll_order
from tests.history.checks.reads import aborted_reads, precommitted_reads, unwritten_reads
from tests.history.checks.sends import backward_sends, send_order
from tests.history.checks.transactions import repeated_inputs, skipped_inputs, torn_offsets, torn_transactions
from tests.history.finding import Finding
from tests.history.log import Evidence, gather
from tests.history.model import History

CHECKS: tuple[Callable[[Evidence], Iterator[Finding]], ...] = (
    lost_writes,
    unseen,
    inconsistent_offsets,
    duplicates,
    aborted_reads,
    precommitted_reads,
    unwritten_reads,
    poll_order,
    send_order,
    backward_sends,
    read_cycles,
    write_cycles,
    torn_transactions,
    torn_offsets,
    repeated_inputs,
    skipped_inputs,
)


@dataclass(frozen=True)
class Verdict:
    """`findings` are broken promises, `allowed` what Kafka allows and is worth counting."""

    findings: tuple[Finding, ...]
    allowed: tuple[Finding, ...]
    calls: int
    acknowledged: int
    """Records."""
    unknown: int
    """Records of which nobody knows."""
    read: int

    def kinds(self) -> dict[str, int]:
        return _counted(self.findings)

    def allowed_kinds(self) -> dict[str, int]:
        return _counted(self.allowed)


def judge(history: History) -> Verdict:
    evidence = gather(history, pair(history.ops))
    found = [finding for check in CHECKS for finding in check(evidence)]
    return Verdict(
        tuple(finding for finding in found if not finding.allowed),
        tuple(finding for finding in found if finding.allowed),
        len(evidence.calls),
        sum(_acknowledged(call) for call in evidence.calls),
        sum(len(call.sends) for call in evidence.calls if call.type == "info"),
        len(evidence.read),
    )


def _acknowledged(call: Call) -> int:
    return len(call.sends) if call.type == "ok" else 0


def _counted(findings: tuple[Finding, ...]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for finding in findings:
        counts[finding.kind] = counts.get(finding.kind, 0) + 1
    return counts
