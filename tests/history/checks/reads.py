"""Reads of what must not be seen: what was refused, what nobody sent, what is not committed yet."""

from collections.abc import Iterator

from tests.history.finding import Finding
from tests.history.log import Evidence


def aborted_reads(evidence: Evidence) -> Iterator[Finding]:
    for value, reader in evidence.read.items():
        writer = evidence.writer.get(value)
        if writer is not None and writer.type == "fail":
            says = f"{value} was read, and its writer failed"
            yield Finding("aborted-read", says, evidence.key_of[value], (value,), (writer, reader))


def precommitted_reads(evidence: Evidence) -> Iterator[Finding]:
    """Reads of a transaction's own sends. Reads of another's show as cycles, or as reads of aborted records."""
    for call in evidence.calls:
        if call.f != "txn":
            continue
        mine = {send.value for send in call.sends}
        for key, _, value in call.polls:
            if value in mine:
                yield Finding("precommitted-read", f"a transaction polled {value}, which it sent itself", key, (value,), (call,))


def unwritten_reads(evidence: Evidence) -> Iterator[Finding]:
    seen = set()
    for call in evidence.calls:
        for key, offset, value in call.polls:
            if evidence.key_of.get(value) != key and (key, value) not in seen:
                seen.add((key, value))
                sent_to = evidence.key_of.get(value)
                says = f"{value} is at offset {offset}, and was sent " + ("by nobody" if sent_to is None else f"to {sent_to}")
                yield Finding("unwritten-read", says, key, (value,), (call,))
