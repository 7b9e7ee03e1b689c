"""A verdict for people: what is wrong, and the calls that show it."""

from tests.history.finding import Finding
from tests.history.judge import Verdict

EXAMPLES = 3


def format_verdict(verdict: Verdict) -> str:
    lines = [
        f"{verdict.calls} calls, {verdict.acknowledged} records acknowledged, {verdict.unknown} of unknown fate,"
        f" {verdict.read} read"
    ]
    if not verdict.findings:
        lines.append("every promise was kept")
    for kind, count in verdict.kinds().items():
        lines.append(f"{kind}: {count}")
        examples = [finding for finding in verdict.findings if finding.kind == kind][:EXAMPLES]
        for finding in examples:
            lines += _format_finding(finding)
        if count > len(examples):
            lines.append(f"  … and {count - len(examples)} more")
    lines += [f"allowed: {kind}: {count}" for kind, count in verdict.allowed_kinds().items()]
    return "\n".join(lines)


def _format_finding(finding: Finding) -> list[str]:
    where = "" if finding.key is None else f"{finding.key}: "
    return [f"  {where}{finding.says}", *(f"    {call}" for call in finding.calls[:6])]
