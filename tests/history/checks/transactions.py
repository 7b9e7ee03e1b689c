"""A transaction happens as a whole: its records, and the offsets that it commits with them."""

from collections.abc import Iterator

from tests.history.calls import Call
from tests.history.finding import Finding
from tests.history.log import Evidence
from tests.history.model import Key, Offset, Send


def torn_transactions(evidence: Evidence) -> Iterator[Finding]:
    """Some of it was seen, and readers passed the rest without seeing it. Of one that failed, that is an aborted read."""
    for call in evidence.calls:
        if call.f != "txn" or call.type == "fail":
            continue
        seen = [send for send in call.sends if send.value in evidence.polled]
        passed = [send for send in call.sends if send.value not in evidence.polled and _is_passed(evidence, send)]
        if seen and passed:
            says = f"of one transaction {_values(seen)} can be read, and {_values(passed)} cannot"
            readers = tuple(evidence.read[send.value] for send in seen[:2] if send.value in evidence.read)
            yield Finding("torn-transaction", says, passed[0].key, tuple(send.value for send in passed), (call, *readers))


def torn_offsets(evidence: Evidence) -> Iterator[Finding]:
    """The offsets that a transaction commits are there if its records are, and not if they are not."""
    commits: dict[tuple[str, Key, Offset], list[Call]] = {}
    ended: list[tuple[int, str, Key, Offset, Call]] = []
    for call in evidence.calls:
        for commit in call.commits:
            for key, offset in commit.offsets.items():
                commits.setdefault((commit.group, key, offset), []).append(call)
                if call.type == "ok":
                    ended.append((call.ended, commit.group, key, offset, call))
    ended.sort(key=lambda one: one[0])
    highest: dict[tuple[str, Key], tuple[Offset, Call]] = {}
    next_end = 0
    for call in evidence.calls:
        while next_end < len(ended) and ended[next_end][0] < call.begun:
            _, group, key, offset, committer = ended[next_end]
            next_end += 1
            if offset > highest.get((group, key), (-1, committer))[0]:
                highest[group, key] = offset, committer
        if call.type != "ok":
            continue
        for position in call.positions:
            for key, offset in position.offsets.items():
                before = highest.get((position.group, key))
                if before is not None and offset < before[0]:
                    says = f"{position.group} is at {offset}, and {before[0]} had been committed"
                    yield Finding("lost-offsets", says, key, calls=(before[1], call))
                sources = commits.get((position.group, key, offset), [])
                if sources and not any(_may_have_happened(evidence, source) for source in sources):
                    says = f"{position.group} is at {offset}, and the transaction that committed this did not happen"
                    yield Finding("torn-offsets", says, key, calls=(sources[0], call))


def repeated_inputs(evidence: Evidence) -> Iterator[Finding]:
    """Each record is transformed by one transaction of a group: two that both happened never polled the same one."""
    by_input: dict[tuple[str, Key, Offset], Call] = {}
    for call in evidence.calls:
        if call.f != "txn" or not evidence.is_committed(call):
            continue
        for commit in call.commits:
            for key, offset, value in call.polls:
                if key not in commit.offsets or offset >= commit.offsets[key]:
                    continue
                other = by_input.setdefault((commit.group, key, offset), call)
                if other is not call:
                    says = f"{value} at offset {offset} is the input of two transactions of {commit.group}"
                    yield Finding("repeated-input", says, key, (value,), (other, call))


def skipped_inputs(evidence: Evidence) -> Iterator[Finding]:
    """A group's offsets pass no record that a client saw, unless a transaction that happened polled it. What lies before the
    group's first input is not its own."""
    if not evidence.history.read_to_end:
        return
    inputs: dict[tuple[str, Key], set[Offset]] = {}
    reached: dict[tuple[str, Key], tuple[Offset, Call]] = {}
    for call in evidence.calls:
        if call.f != "txn" or not evidence.is_committed(call):
            continue
        for commit in call.commits:
            for key, offset in commit.offsets.items():
                polled = {at for other, at, _ in call.polls if other == key and at < offset}
                inputs.setdefault((commit.group, key), set()).update(polled)
                if offset > reached.get((commit.group, key), (-1, call))[0]:
                    reached[commit.group, key] = offset, call
    for (group, key), (end, call) in reached.items():
        mine, log = inputs[group, key], evidence.log(key)
        for offset in log.offsets:
            if min(mine, default=end) < offset < end and offset not in mine:
                for value in log.at[offset]:
                    if value in evidence.read:
                        says = f"{value} at offset {offset} is the input of no transaction of {group}, which is at {end}"
                        yield Finding("skipped-input", says, key, (value,), (call, evidence.read[value]))


def _is_passed(evidence: Evidence, send: Send) -> bool:
    if evidence.history.read_to_end:
        return True
    log = evidence.log(send.key)
    return send.offset is not None and log.read_up_to >= 0 and log.offsets[log.read_up_to] > send.offset


def _may_have_happened(evidence: Evidence, call: Call) -> bool:
    if call.type == "info" and call.sends and evidence.history.read_to_end:
        return any(send.value in evidence.polled for send in call.sends)
    return call.type != "fail"


def _values(sends: list[Send]) -> str:
    return ", ".join(f"{send.key}:{send.value}" for send in sends[:5]) + (" …" if len(sends) > 5 else "")
