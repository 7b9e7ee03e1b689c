"""A consumer goes through a partition one record after the other, unless it is moved."""

from collections.abc import Iterator

from tests.history.calls import Call
from tests.history.finding import Finding
from tests.history.log import Evidence
from tests.history.model import Key, Offset


def poll_order(evidence: Evidence) -> Iterator[Finding]:
    """Polls that skip or repeat records, within a call and from a process's last ok call on.

    Subscribing and seeking free all partitions, assigning frees new ones. Partitions that came or went in a call are free in it.
    """
    last_of: dict[int, dict[Key, tuple[Offset, Call]]] = {}
    for call in evidence.calls:
        last = last_of.setdefault(call.process, {})
        if call.f == "subscribe" or (call.f == "assign" and call.sought):
            last.clear()
        elif call.f == "assign":
            for key in [key for key in last if key not in call.keys]:
                del last[key]
        elif call.type == "ok":
            for key in call.rebalanced_keys:
                last.pop(key, None)
            yield from _follow(evidence, call, last)
        else:
            yield from _follow(evidence, call, {})  # its consumer goes back to where it was, or is given up


def _follow(evidence: Evidence, call: Call, last: dict[Key, tuple[Offset, Call]]) -> Iterator[Finding]:
    for key, offset, _ in call.polls:
        before = last.get(key)
        last[key] = offset, call
        if before is None or (before[1] is call and key in call.rebalanced_keys):
            continue
        log = evidence.logs[key]
        step = log.index[offset] - log.index[before[0]]
        if step == 1:
            continue
        kind = "poll-skip" if step > 1 else "nonmonotonic-poll"
        away = log.offsets[log.index[before[0]] + 1 : log.index[offset]][:5]
        says = f"process {call.process} polled offset {before[0]}, then {offset}"
        if step > 1:
            says += f", and not {step - 1} between them: {', '.join(map(str, away))}" + (" …" if step > 6 else "")
        calls = (call,) if before[1] is call else (before[1], call)
        yield Finding(kind, says, key, tuple(log.at[offset]), calls)
