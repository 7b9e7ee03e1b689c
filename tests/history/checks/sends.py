"""Records lie as they were sent: one producer's always, those of several where one was answered before the next began."""

from collections.abc import Iterator

from tests.history.calls import NEVER, Call
from tests.history.finding import Finding
from tests.history.log import Evidence
from tests.history.model import Key, Offset, Send


def send_order(evidence: Evidence) -> Iterator[Finding]:
    """Of each producer, in the order in which it sent; what others stored between is no skip. Retries of a producer that is
    not idempotent may change the order of what was under way together."""
    last_of: dict[int, dict[Key, tuple[Offset, Call]]] = {}
    for call in evidence.calls:
        if call.process in evidence.history.plain:
            continue
        last = last_of.setdefault(call.process, {})
        committed = evidence.committed_values(call)
        for send in call.sends:
            offset = _first_offset(evidence, send)
            if offset is None or send.value not in committed:
                continue
            before = last.get(send.key)
            last[send.key] = offset, call
            if before is not None and offset <= before[0]:
                says = f"process {call.process} sent what is at offset {before[0]}, then what is at {offset}"
                calls = (call,) if before[1] is call else (before[1], call)
                yield Finding("nonmonotonic-send", says, send.key, (send.value,), calls)


def backward_sends(evidence: Evidence) -> Iterator[Finding]:
    """Sends that began after an acknowledgement and lie before it, of any producers. A transaction's sends begin with it."""
    ends = sorted((call.ended, call) for call in evidence.calls if call.ended != NEVER and call.sends and call.type == "ok")
    highest: dict[Key, tuple[Offset, Call]] = {}
    next_end = 0
    for call in evidence.calls:
        while next_end < len(ends) and ends[next_end][0] < call.begun:
            ended = ends[next_end][1]
            next_end += 1
            for send in ended.sends:
                if send.offset is not None and send.offset > highest.get(send.key, (-1, ended))[0]:
                    highest[send.key] = send.offset, ended
        committed = evidence.committed_values(call)
        for send in call.sends:
            offset = _first_offset(evidence, send)
            before = highest.get(send.key)
            if offset is None or before is None or offset > before[0] or send.value not in committed:
                continue
            if before[1].process == call.process and call.process not in evidence.history.plain:
                continue  # `send_order` says so
            says = f"{send.value} is at offset {offset}, and was sent when offset {before[0]} had been acknowledged"
            yield Finding("backward-send", says, send.key, (send.value,), (before[1], call))


def _first_offset(evidence: Evidence, send: Send) -> Offset | None:
    """The offset at which it was acknowledged, else at which it was found."""
    if send.offset is not None:
        return send.offset
    log = evidence.logs.get(send.key)
    indexes = None if log is None else log.indexes_of.get(send.value)
    return None if log is None or indexes is None else log.offsets[indexes[0]]
